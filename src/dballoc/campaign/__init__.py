"""The campaign: the only room where server, load, measuring and store meet."""
