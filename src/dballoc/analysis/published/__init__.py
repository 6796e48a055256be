"""Published figures, and ours beside them."""
