"""Recordings: how the recorder is asked, and the files that it writes, as arrays."""
