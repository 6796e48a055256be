"""Load from a host of its own: what it is asked and answers, and who runs it."""
