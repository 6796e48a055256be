"""The verbs of ``dballoc kit``."""
