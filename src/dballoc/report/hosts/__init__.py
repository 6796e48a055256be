"""The report of ``dballoc combine``."""
