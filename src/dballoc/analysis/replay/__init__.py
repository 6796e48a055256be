"""Replays of a trace: their figures by variant, and how far they are from the recorded process."""
