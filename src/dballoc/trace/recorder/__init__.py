"""The recorder in another program: how it gets there, and how it is asked."""
