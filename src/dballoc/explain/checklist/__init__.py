"""Gather what a DBA looks up by hand when a server has grown, section by section."""
