"""A trace replayed once against one malloc: the plan for the engine, its run, its figures."""
