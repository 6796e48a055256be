"""What do these results say? A folder a question; each reads results through the store alone."""
