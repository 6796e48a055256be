"""The ways to load: what the blocks of each are, how long they take, how a trial of them is run."""
