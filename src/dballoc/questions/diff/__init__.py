"""The question: how do two results differ."""
