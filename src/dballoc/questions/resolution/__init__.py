"""The question: which differences can this host show."""
