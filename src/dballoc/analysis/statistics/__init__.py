"""Estimates, intervals and their variance. Pure."""
