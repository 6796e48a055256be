"""A running process's memory read from outside: mappings, pages, heaps, stacks, its malloc."""
