"""The charts: one file per subject, and what they look like in :mod:`theme`."""
