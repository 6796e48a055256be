"""Fetch servers and allocators into a private store, with the clients of the ecosystems that have
them.
"""
