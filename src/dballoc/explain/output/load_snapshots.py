"""Read explanations from files; :mod:`dballoc.explain.output.saved_snapshots` writes them."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from dballoc.evidence.model import Evidence
from dballoc.explain.checklist.section import Bytes, Cell, ChecklistSection
from dballoc.explain.explanation import Explanation
from dballoc.explain.ledger.configuration_limits import AvailableMemory, Bounds
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.output.saved_snapshots import FORMAT, VERSION
from dballoc.explain.verdicts.verdict import MemoryVerdict
from dballoc.explain.watch import thin_series
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.process.usage import ProcessUsage

_LEDGER, _ROOM, _BOUNDS = TypeAdapter(Ledger), TypeAdapter(AvailableMemory), TypeAdapter(Bounds)
_REACH: TypeAdapter[int | None] = TypeAdapter(int | None)
_NO_SNAPSHOT = "it is not a snapshot of dballoc explain --save or --save-series"
# Bytes of one snapshot, which has some 10 KB, and of a series, which may go on for weeks.
_MOST_OF_SNAPSHOT, _MOST_OF_SERIES = 16 * readers.MIB, 1024 * readers.MIB
_HUGE = 2**60
# Unix time of the year 9999, the last that a calendar here has.
_LATEST = 253_402_300_799
_EVIDENCE, _VERDICTS = TypeAdapter(Evidence), TypeAdapter(list[MemoryVerdict])
_USAGE: TypeAdapter[ProcessUsage | None] = TypeAdapter(ProcessUsage | None)


def load_series(path: Path) -> list[Explanation]:
    """Read the snapshots of a file, one or a series; of a very long one every second, fourth, …
    with the last, as --watch keeps them.

    Raises UsageError if it is no such file, or not of this version.
    """
    series: list[Explanation] = []
    try:
        for number, (value, last) in enumerate(_read_documents(path), 1):
            where = str(path) if number == 1 and last else f"{path}, line {number}"
            series = thin_series([*series, _parse_explanation(value, where)])
    except readers.Unfit as error:
        raise UsageError(f"{path}: {str(error).removeprefix('cannot be read: ')}") from None
    return series


def _read_documents(path: Path) -> Iterator[tuple[Any, bool]]:
    """Read each document, and whether it is the only one. A series may have lost the end of its
    last line to a kill.
    """
    lines = readers.lines(path, _MOST_OF_SNAPSHOT, _MOST_OF_SERIES)
    first = next(lines, b"")
    after = next(lines, None)
    try:
        value = readers.document(first)
    except readers.Unfit:
        # One snapshot is written with a line for each key.
        yield (
            _read_one_document(itertools.chain([first], [] if after is None else [after], lines)),
            True,
        )
        return
    yield value, after is None
    for number, line in enumerate(itertools.chain([] if after is None else [after], lines), 2):
        try:
            value = readers.document(line)
        except readers.Unfit as error:
            if line.endswith(b"\n"):
                raise readers.Unfit(f"line {number}: {_NO_SNAPSHOT}: {error}") from None
            return
        yield value, False


def _read_one_document(lines: Iterable[bytes]) -> Any:
    parts, size = [], 0
    for line in lines:
        parts.append(line)
        size += len(line)
        if size > _MOST_OF_SNAPSHOT:
            raise readers.Unfit(f"{_NO_SNAPSHOT}: it is larger than any")
    try:
        return readers.document(b"".join(parts))
    except readers.Unfit as error:
        raise readers.Unfit(f"{_NO_SNAPSHOT}: {error}") from None


def _parse_explanation(value: Any, where: str) -> Explanation:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise UsageError(f"{where}: {_NO_SNAPSHOT}")
    if value.get("version") != VERSION:
        raise UsageError(
            f"{where}: version {value.get('version')!a:.60} of the format; this dballoc reads "
            f"{VERSION}"
        )
    try:
        bounds = value["bounds"]
        if bounds is not None and not isinstance(bounds, dict):
            raise UsageError(f"{where}: bounds: neither an object nor null")
        explanation = Explanation(
            ledger=_LEDGER.validate_python(value),
            room=_ROOM.validate_python(value["room"]),
            bounds=_BOUNDS.validate_python(bounds) if bounds else None,
            verdict=_read_text(bounds, "verdict") if bounds else None,
            seconds=float(value["seconds"]),
            timestamp=float(value["taken"]),
            evidence=_EVIDENCE.validate_python(value["evidence"]),
            answer=str(value["answer"]),
            verdicts=_VERDICTS.validate_python(value["verdicts"]),
            sections=_parse_sections(value.get("procedure", [])),
            reach=_REACH.validate_python(bounds.get("reach")) if bounds else None,
            usage=_USAGE.validate_python(_without_share(value.get("usage"))),
        )
    except ValidationError as error:
        raise UsageError(f"{where}: {readers.first_complaint(error)}") from None
    except KeyError as error:
        raise UsageError(
            f"{where}: the key {readers.shown(str(error.args[0]))} is missing"
        ) from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where}: {_NO_SNAPSHOT}: {readers.reason(error)}") from None
    if complaint := _find_impossible(explanation):
        raise UsageError(f"{where}: {complaint}")
    return explanation


def _without_share(usage: Any) -> Any:
    """Return what a snapshot says of VSZ and CPU without the share, which follows from the rest."""
    if not isinstance(usage, dict):
        return usage
    return {name: number for name, number in usage.items() if name != "cpu_share"}


def _read_text(bounds: Any, key: str) -> str:
    return str(bounds[key])


def _find_impossible(explanation: Explanation) -> str:
    """Return what no snapshot can hold, so that nothing divides by it or makes a date of it; empty
    if there is nothing of the kind.
    """
    ledger = explanation.ledger
    if ledger.rss <= 0:
        return f"rss: {ledger.rss}: a process without memory cannot be explained"
    if not 0 <= explanation.timestamp <= _LATEST:
        return f"taken: {explanation.timestamp} is not a time"
    sizes = [
        ledger.rss,
        ledger.rest,
        *ledger.unowned_bounds,
        *(size for line in ledger.lines for size in (line.resident, line.size, *line.bounds)),
        *(size for line in ledger.lines for _, size in line.parts),
        *(size for *_, size in explanation.evidence.sessions),
        explanation.room.machine,
        *ledger.beside.values(),
        *(astuple(explanation.usage) if explanation.usage else ()),
    ]
    if not all(abs(size) < _HUGE for size in sizes):
        return "a size in it is larger than any memory"
    return ""


@dataclass(frozen=True, kw_only=True)
class _SavedSection(ChecklistSection):
    """A section as :meth:`ChecklistSection.as_json` writes it."""

    columns: Annotated[tuple[str, ...], Field(min_length=1, max_length=40)] = ("what", "value")
    rows: Annotated[list[tuple[Cell, ...]], Field(max_length=10_000)] = field(default_factory=list)
    bytes: Annotated[list[tuple[int, int]], Field(max_length=400_000)] = field(default_factory=list)


_SAVED = TypeAdapter(Annotated[list[_SavedSection], Field(max_length=100)])


def _parse_sections(saved: Any) -> list[ChecklistSection]:
    """Return the sections of a saved snapshot. pydantic.ValidationError or ValueError for anything
    else.
    """
    sections = []
    for part in _SAVED.validate_python(saved):
        if any(len(row) != len(part.columns) for row in part.rows):
            raise ValueError("procedure: a row has not as many cells as there are columns")
        fields = vars(part).copy()
        sizes = set(fields.pop("bytes"))
        rows = [
            tuple(
                Bytes(cell) if isinstance(cell, int) and (number, i) in sizes else cell
                for i, cell in enumerate(row)
            )
            for number, row in enumerate(part.rows)
        ]
        sections.append(ChecklistSection(**fields | {"rows": rows}))
    return sections
