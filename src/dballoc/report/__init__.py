"""The report: one file per output. Reads the store through analysis alone."""
