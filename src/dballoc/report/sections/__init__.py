"""The sections of the report, one file each."""
