"""Heaps of allocators, walked from outside, and what allocators and the probe say of theirs."""
