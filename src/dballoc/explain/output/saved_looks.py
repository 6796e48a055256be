"""Explanations as files: one look as JSON, a series as JSON lines; gzip where the name ends in
``.gz``.
"""

import gzip
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError

import dballoc
from dballoc import readers
from dballoc.errors import Failure, UsageError
from dballoc.explain.attribution.configuration_limits import Bounds, Room
from dballoc.explain.attribution.ledger import Ledger
from dballoc.explain.explanation import Explanation
from dballoc.explain.verdicts.evidence import Evidence
from dballoc.explain.verdicts.verdicts import Verdict
from dballoc.explain.watch import thinned

# Raised when a reader of the older form would read the newer one wrongly; keys that are added do
# not count.
FORMAT, VERSION = "dballoc explain", 1

_LEDGER, _ROOM, _BOUNDS = TypeAdapter(Ledger), TypeAdapter(Room), TypeAdapter(Bounds)
_REACH: TypeAdapter[int | None] = TypeAdapter(int | None)
_NONE = "it is no snapshot of dballoc explain --save or --save-series"
# Bytes: of a look, which has some 10 KB, and of a series, which may go on for weeks.
_LONGEST, _MOST = 16 * readers.MIB, 1024 * readers.MIB
_HUGE = 2**60
# Unix time of the year 9999, the last that a calendar here has.
_LATEST = 253_402_300_799
_EVIDENCE, _VERDICTS = TypeAdapter(Evidence), TypeAdapter(list[Verdict])


def document(found: Explanation) -> dict[str, Any]:
    """What ``--json`` prints and ``--save`` writes."""
    return {"format": FORMAT, "version": VERSION, "dballoc": dballoc.__version__} | found.as_json()


def save(found: Explanation, path: Path) -> None:
    """One look. Failure in one line if it cannot be written."""
    _write(path, json.dumps(document(found), indent=1) + "\n", "w")


def append(found: Explanation, path: Path, first: bool) -> None:
    """One more look of a series, a line of its own; the ``first`` one begins the file. Failure in
    one line.
    """
    _write(path, json.dumps(document(found), separators=(",", ":")) + "\n", "w" if first else "a")


def load(path: Path) -> list[Explanation]:
    """The looks in a file, one or a series; of a very long one every second, fourth, … with the
    last, as --watch keeps them.

    UsageError in one line if it is none, or not of this version.
    """
    found: list[Explanation] = []
    try:
        for number, (value, last) in enumerate(_documents(path), 1):
            where = str(path) if number == 1 and last else f"{path}, line {number}"
            found = thinned([*found, _parse(value, where)])
    except readers.Unfit as error:
        raise UsageError(f"{path}: {str(error).removeprefix('cannot be read: ')}") from None
    return found


def _documents(path: Path) -> Iterator[tuple[Any, bool]]:
    """Each, and whether it is all there is. A series may have lost the end of its last line to a
    kill.
    """
    lines = readers.lines(path, _LONGEST, _MOST)
    first = next(lines, b"")
    after = next(lines, None)
    try:
        value = readers.document(first)
    except readers.Unfit:
        # One look is written with its keys below each other.
        yield _whole(itertools.chain([first], [] if after is None else [after], lines)), True
        return
    yield value, after is None
    for number, line in enumerate(itertools.chain([] if after is None else [after], lines), 2):
        try:
            value = readers.document(line)
        except readers.Unfit as error:
            if line.endswith(b"\n"):
                raise readers.Unfit(f"line {number}: {_NONE}: {error}") from None
            return
        yield value, False


def _whole(lines: Iterable[bytes]) -> Any:
    parts, size = [], 0
    for line in lines:
        parts.append(line)
        size += len(line)
        if size > _LONGEST:
            raise readers.Unfit(f"{_NONE}: larger than any")
    try:
        return readers.document(b"".join(parts))
    except readers.Unfit as error:
        raise readers.Unfit(f"{_NONE}: {error}") from None


def _parse(document: Any, where: str) -> Explanation:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{where}: {_NONE}")
    if document.get("version") != VERSION:
        raise UsageError(
            f"{where}: version {document.get('version')} of the form; this dballoc reads {VERSION}"
        )
    try:
        bounds = document["bounds"]
        if bounds is not None and not isinstance(bounds, dict):
            raise UsageError(f"{where}: bounds: neither a table nor nothing")
        found = Explanation(
            ledger=_LEDGER.validate_python(document),
            room=_ROOM.validate_python(document["room"]),
            bounds=_BOUNDS.validate_python(bounds) if bounds else None,
            verdict=_text(bounds, "verdict") if bounds else None,
            seconds=float(document["seconds"]),
            taken=float(document["taken"]),
            evidence=_EVIDENCE.validate_python(document["evidence"]),
            answer=str(document["answer"]),
            verdicts=_VERDICTS.validate_python(document["verdicts"]),
            reach=_REACH.validate_python(bounds.get("reach")) if bounds else None,
        )
    except ValidationError as error:
        raise UsageError(f"{where}: {readers.first_complaint(error)}") from None
    except KeyError as error:
        raise UsageError(
            f"{where}: the key {readers.shown(str(error.args[0]))} is missing"
        ) from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where}: {_NONE}: {readers.reason(error)}") from None
    if complaint := _impossible(found):
        raise UsageError(f"{where}: {complaint}")
    return found


def _text(bounds: Any, key: str) -> str:
    return str(bounds[key])


def _impossible(found: Explanation) -> str:
    """What no look can say, so that nothing is divided by it, or made a date of; empty if there is
    nothing of that.
    """
    ledger = found.ledger
    if ledger.rss <= 0:
        return f"rss: {ledger.rss}: of a process without memory there is nothing to explain"
    if not 0 <= found.taken <= _LATEST:
        return f"taken: {found.taken} is no time"
    sizes = [
        ledger.rss,
        ledger.rest,
        ledger.unowned,
        *(n for line in ledger.lines for n in (line.resident, line.size)),
    ]
    sizes += [found.room.machine, *ledger.beside.values()]
    if not all(abs(size) < _HUGE for size in sizes):
        return "a size in it is larger than any memory"
    return ""


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
