"""How the verbs of ``dballoc profile`` do what their flags ask for."""
