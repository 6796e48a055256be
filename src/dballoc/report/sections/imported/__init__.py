"""Sections on results that were made elsewhere."""
