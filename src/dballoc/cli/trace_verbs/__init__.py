"""A file a verb of ``dballoc trace``."""
