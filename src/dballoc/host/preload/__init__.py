"""Preloads of ours in other programs: how they get there, and how they are asked."""
