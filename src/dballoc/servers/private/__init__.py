"""A server of our own: its command line, data, start and stop."""
