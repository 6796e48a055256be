"""The verbs of ``dballoc profile``, a file each."""
