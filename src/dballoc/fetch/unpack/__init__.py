"""From an archive to a tree on disk that works where it lies."""
