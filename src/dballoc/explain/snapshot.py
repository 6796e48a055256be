"""Explanations as files: one look as JSON, a series as JSON lines; gzip where the name ends in ``.gz``."""

import gzip
import io
import json
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError

import dballoc
from dballoc.errors import Failure, UsageError
from dballoc.explain.bounds import Bounds, Room
from dballoc.explain.evidence import Evidence
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger import Ledger
from dballoc.explain.verdicts import Verdict

# Raised when a reader of the older form would read the newer one wrongly; keys that are added do not count.
FORMAT, VERSION = "dballoc explain", 1

_LEDGER, _ROOM, _BOUNDS = TypeAdapter(Ledger), TypeAdapter(Room), TypeAdapter(Bounds)
_EVIDENCE, _VERDICTS = TypeAdapter(Evidence), TypeAdapter(list[Verdict])


def document(found: Explanation) -> dict[str, Any]:
    """What ``--json`` prints and ``--save`` writes."""
    return {"format": FORMAT, "version": VERSION, "dballoc": dballoc.__version__} | found.as_json()


def save(found: Explanation, path: Path) -> None:
    """One look. Failure in one line if it cannot be written."""
    _write(path, json.dumps(document(found), indent=1) + "\n", "w")


def append(found: Explanation, path: Path, first: bool) -> None:
    """One more look of a series, a line of its own; the ``first`` one begins the file. Failure in one line."""
    _write(path, json.dumps(document(found), separators=(",", ":")) + "\n", "w" if first else "a")


def load(path: Path) -> list[Explanation]:
    """The looks in a file, one or a series. UsageError in one line if it is none, or not of this version."""
    try:
        with _open(path, "r") as file:
            text = file.read()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return [_parse(document, f"{path}{where}") for document, where in _documents(text, path)]


def _documents(text: str, path: Path) -> list[tuple[Any, str]]:
    """Each with its place, in words. A series may have lost the end of its last line to a kill."""
    try:
        return [(json.loads(text), "")]
    except ValueError:
        lines = text.splitlines(keepends=True)
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append((json.loads(line), f", line {number}"))
        except ValueError:
            if number == len(lines) > 1 and not line.endswith("\n"):
                break
            raise UsageError(f"{path}: it is no snapshot of dballoc explain --save or --save-series") from None
    if not found:
        raise UsageError(f"{path}: it is no snapshot of dballoc explain --save or --save-series")
    return found


def _parse(document: Any, where: str) -> Explanation:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{where}: it is no snapshot of dballoc explain --save or --save-series")
    if document.get("version") != VERSION:
        raise UsageError(f"{where}: version {document.get('version')} of the form; this dballoc reads {VERSION}")
    try:
        bounds = document["bounds"]
        return Explanation(
            _LEDGER.validate_python(document), _ROOM.validate_python(document["room"]),
            _BOUNDS.validate_python(bounds) if bounds else None, bounds["verdict"] if bounds else None,
            float(document["seconds"]), float(document["taken"]), _EVIDENCE.validate_python(document["evidence"]),
            str(document["answer"]), _VERDICTS.validate_python(document["verdicts"]),
            reach=bounds.get("reach") if bounds else None,
        )  # fmt: skip
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{where}: the key {error} is missing or wrong") from None


def _write(path: Path, text: str, mode: str) -> None:
    try:
        with _open(path, mode) as file:
            file.write(text)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from None


def _open(path: Path, mode: str) -> IO[str]:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, mode), encoding="utf-8")
    return path.open(mode, encoding="utf-8")
