"""A running server of somebody else's: read from outside, and asked carefully."""
