"""One trial: a server's life under load, solo or as a duet, and what is stored of it."""
