"""The identity of a trace file. A module of its own, because verbs without a trace read it too."""

from pathlib import Path

from dballoc.ground import readers


def hash_trace(path: Path) -> str:
    """Return the SHA-256 of a file. UsageError if it cannot be read."""
    with readers.naming(path):
        return readers.hash_file(path)
