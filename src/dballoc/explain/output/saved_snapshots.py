"""Explanations as files: one snapshot as JSON, a series as JSON lines; gzip where the name ends in
``.gz``.
"""

import gzip
import io
import json
from pathlib import Path
from typing import IO, Any

import dballoc
from dballoc.errors import Failure
from dballoc.explain.explanation import Explanation

# Raised when a reader of the older form would read the newer one wrongly; keys that are added do
# not count.
FORMAT, VERSION = "dballoc explain", 1


def make_document(explanation: Explanation) -> dict[str, Any]:
    """Return what ``--json`` prints and ``--save`` writes."""
    origin = {"format": FORMAT, "version": VERSION, "dballoc": dballoc.__version__}
    return origin | explanation.as_json()


def save_snapshot(explanation: Explanation, path: Path) -> None:
    """Write one snapshot. Failure in one line if it cannot be written."""
    _write_text(path, json.dumps(make_document(explanation), indent=1) + "\n", "w")


def append_snapshot(explanation: Explanation, path: Path, first: bool) -> None:
    """Write one more snapshot of a series, a line of its own; the ``first`` one begins the file.
    Failure in one line if it cannot be written.
    """
    text = json.dumps(make_document(explanation), separators=(",", ":")) + "\n"
    _write_text(path, text, "w" if first else "a")


def _write_text(path: Path, text: str, mode: str) -> None:
    try:
        with _open_file(path, mode) as file:
            file.write(text)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from None


def _open_file(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, mode), encoding="utf-8")
    return path.open(mode, encoding="utf-8")
