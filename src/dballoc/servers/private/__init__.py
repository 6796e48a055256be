"""A server that dballoc starts: its command line, data, start and stop."""
