"""Where a live server's memory goes: pages by class, malloc's statistics, the server's labels."""
