"""The report's sections, a file each."""
