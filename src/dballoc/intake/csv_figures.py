"""Read figures from a CSV file. Pure except for opening the file."""

import csv
import difflib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dballoc import readers
from dballoc.errors import UsageError
from dballoc.intake.imported_figure import HERE, Figure

# The largest file, and the largest RSS, bytes.
_LARGEST_FILE, _LARGEST_RSS = 64 * readers.MIB, 2**53

_LONGEST_NAME = 1000

REQUIRED = ("workload", "threads", "variant", "tps")

_SIZES = {"rss_bytes": 1, "rss_kib": 2**10, "rss_mib": 2**20, "rss_gib": 2**30}
_REALS = {"tps": "tps", "qps": "qps", "p95_ms": "p95", "p99_ms": "p99", "seconds": "seconds"}

COLUMNS = ("machine", *REQUIRED, "block", "qps", "p95_ms", "p99_ms", *_SIZES, "seconds")


def read_figures(path: Path) -> list[Figure]:
    """Return the figure of each line. UsageError, ``FILE:LINE: …``, for anything that
    docs/import.md does not allow.
    """
    try:
        text = readers.text(path, _LARGEST_FILE)
    except readers.Unfit as error:
        raise UsageError(f"{path}: {error}") from None
    return parse_figures(text, str(path))


def parse_figures(text: str, origin: str) -> list[Figure]:
    """Return the figures in a file's text; UsageError as for :func:`read_figures`."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        _check_header(header, origin)
        figures = [
            _parse_figure(dict(zip(header, map(str.strip, cells), strict=True)), f"{origin}:{line}")
            for line, cells in _iterate_rows(reader, len(header), origin)
        ]
        for figure in figures:
            for name, text in (
                ("variant", figure.variant),
                ("workload", figure.workload),
                ("machine", figure.machine),
            ):
                if "\0" in text or len(text) > _LONGEST_NAME:
                    raise UsageError(
                        f"{figure.place}: {name}: {readers.shown(text)} is not a valid name"
                    )
    except csv.Error as error:
        raise UsageError(f"{origin}:{reader.line_num}: not CSV: {error}") from None
    if not figures:
        raise UsageError(f"{origin}:1: no figures below the heading")
    return figures


def _iterate_rows(reader: Any, columns: int, origin: str) -> Iterator[tuple[int, list[str]]]:
    for cells in reader:
        if any(cell.strip() for cell in cells):
            if len(cells) != columns:
                raise UsageError(
                    f"{origin}:{reader.line_num}: {len(cells)} columns, but the heading has "
                    f"{columns}"
                )
            yield reader.line_num, cells


def _check_header(header: list[str], origin: str) -> None:
    for name in header:
        if header.count(name) > 1:
            raise UsageError(f"{origin}:1: column {name!r} appears twice")
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(COLUMNS)}"
            raise UsageError(f"{origin}:1: unknown column {name!r}; {hint}")
    if missing := [name for name in REQUIRED if name not in header]:
        raise UsageError(
            f"{origin}:1: column {missing[0]!r} is missing; needed are {', '.join(REQUIRED)}"
        )
    if len(sizes := [name for name in header if name in _SIZES]) > 1:
        raise UsageError(f"{origin}:1: RSS is given twice, as {' and '.join(sizes)}")


def _parse_figure(line: dict[str, str], place: str) -> Figure:
    for name in ("workload", "variant"):
        if not line[name]:
            raise UsageError(f"{place}: {name} is empty")
    values: dict[str, Any] = {
        field: _parse_number(line[name], name, place)
        for name, field in _REALS.items()
        if line.get(name)
    }
    if "tps" not in values:
        raise UsageError(f"{place}: tps is empty")
    for name, unit in _SIZES.items():
        if line.get(name):
            size = _parse_number(line[name], name, place) * unit
            if size > _LARGEST_RSS:
                raise UsageError(f"{place}: {name}: {line[name]!r} is more than any machine has")
            values["rss"] = round(size)
    if line.get("block"):
        values["block"] = _parse_count(line["block"], "block", place)
    threads = _parse_count(line["threads"], "threads", place)
    return Figure(
        place=place,
        workload=line["workload"],
        threads=threads,
        variant=line["variant"],
        machine=line.get("machine") or HERE,
        **values,
    )


def _parse_number(text: str, name: str, place: str) -> float:
    return _parse(
        text,
        f"{place}: {name}",
        kind=float,
        expected="a number like 1234.5",
        is_valid=lambda v: v == 0 or 1e-12 <= v <= 1e15,
    )


def _parse_count(text: str, name: str, place: str) -> int:
    return _parse(
        text,
        f"{place}: {name}",
        kind=int,
        expected="a whole number from 1 on",
        is_valid=lambda v: 1 <= v < 2**31,
    )


def _parse(
    text: str,
    place: str,
    *,
    kind: Callable[[str], Any],
    expected: str,
    is_valid: Callable[[Any], bool],
) -> Any:
    """Return the value of a cell. UsageError, which begins with ``place``, if it is not valid."""
    try:
        value = kind(text)
    except ValueError:
        value = None
    # Python alone reads digits with underscores as a number.
    if value is None or "_" in text or not is_valid(value):
        raise UsageError(f"{place}: {text!r} is not {expected}")
    return value
