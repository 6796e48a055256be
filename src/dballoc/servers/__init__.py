"""Servers: builds, private servers that dballoc starts, and running servers that it reads."""
