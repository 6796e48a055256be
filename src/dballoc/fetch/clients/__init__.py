"""A file for each client that brings servers or allocators: apt, Maven, cargo, pip, HTTP,
archives.
"""
