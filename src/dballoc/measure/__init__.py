"""Measured from outside, on the server alone: the process sampler, marks, and the host's noise."""
