"""The question: how do mallocs serve a recorded trace."""
