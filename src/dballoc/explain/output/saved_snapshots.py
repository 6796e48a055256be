"""Explanations as files: one snapshot as JSON, a series as JSON lines; gzip where the name ends in
``.gz``.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dballoc
from dballoc.explain.explanation import Explanation
from dballoc.ground.errors import Failure
from dballoc.ground.files.output_file import append_to_file, write_file

# Raised when a reader of the older form would read the newer one wrongly; keys that are added do
# not count.
FORMAT, VERSION = "dballoc explain", 1


def make_document(explanation: Explanation) -> dict[str, Any]:
    """Return what ``--json`` prints and ``--save`` writes."""
    origin = {"format": FORMAT, "version": VERSION, "dballoc": dballoc.__version__}
    return origin | explanation.as_json()


def save_snapshot(explanation: Explanation, path: Path) -> None:
    """Write one snapshot. Raises Failure if it cannot be written, UsageError if it is a link or
    another user's.
    """
    _write_text(path, json.dumps(make_document(explanation), indent=1) + "\n")


def append_snapshot(explanation: Explanation, path: Path, first: bool) -> None:
    """Write one more snapshot of a series, a line of its own; the ``first`` one begins the file.
    Raises Failure if it cannot be written.
    """
    text = json.dumps(make_document(explanation), separators=(",", ":")) + "\n"
    _write_text(path, text, write_file if first else append_to_file)


def _write_text(path: Path, text: str, write: Callable[[Path, bytes], None] = write_file) -> None:
    # Members of gzip may follow each other.
    content = gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    try:
        write(path, content)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from None
