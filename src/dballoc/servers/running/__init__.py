"""A running server that dballoc did not start: read from outside, and queried with care."""
