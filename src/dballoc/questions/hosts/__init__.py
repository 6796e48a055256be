"""The question: what do the campaigns of several hosts say together."""
