"""What of the catalogue is on this host, and what is missing or wrong here for benchmarking.
Changes nothing.
"""
