"""Traces made of traces: a stretch, several after one another, one without names."""
