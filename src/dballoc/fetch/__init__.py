"""Servers and allocators brought into a private store, through the clients of the ecosystems that
have them.
"""
