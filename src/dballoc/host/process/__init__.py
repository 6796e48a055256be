"""A process, by its handle: what the kernel shows of it, its root, and who may read it."""
