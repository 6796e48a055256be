"""Traces of other tools."""
