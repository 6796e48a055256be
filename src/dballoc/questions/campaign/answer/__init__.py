"""Which variant to run, and why: the recommendation and its sentences."""
