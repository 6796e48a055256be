"""Where a live server's memory goes: pages by class, the allocator's books, the server's labels."""
