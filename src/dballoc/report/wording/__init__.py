"""Figures and verdicts as sentences. Pure."""
