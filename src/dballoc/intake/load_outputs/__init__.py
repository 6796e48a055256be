"""Read what load generators print at the end of a run: a file a program."""
