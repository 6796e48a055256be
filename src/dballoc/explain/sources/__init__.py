"""What the server, its allocator and its files say of its memory."""
