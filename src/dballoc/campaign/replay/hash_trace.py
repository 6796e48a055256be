"""The identity of a trace file. A module of its own, because verbs without a trace read it too."""

import hashlib
from pathlib import Path

from dballoc import readers
from dballoc.errors import UsageError


def hash_trace(path: Path) -> str:
    """Return the SHA-256 of a file. UsageError if it cannot be read."""
    try:
        with readers.open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {readers.reason(error)}") from None
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
