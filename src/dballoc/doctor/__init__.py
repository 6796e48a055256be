"""Checks of this host: what of the catalogue is installed, and what is missing or wrong for
benchmarking.
"""
