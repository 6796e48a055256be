"""Life of one private server: its build, its data template, start, ready, stop."""
