"""Compute estimates, their intervals and their variance. Pure."""
