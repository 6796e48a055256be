"""Allocators: find them, make the environment that enables them, prove that they are in use."""
