"""The report of dballoc tune."""
