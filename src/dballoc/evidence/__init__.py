"""What a running server tells of its memory, a folder a source."""
