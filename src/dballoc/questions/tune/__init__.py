"""The question: which settings are best."""
