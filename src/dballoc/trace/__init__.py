"""Allocations recorded from a process, their file, and their replay against any malloc."""
