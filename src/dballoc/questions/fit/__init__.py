"""The question: how large may the cache be."""
