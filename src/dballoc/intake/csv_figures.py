"""Read figures from CSV, one line a figure. Pure."""

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import delimited_text
from dballoc.intake.imported_figure import HERE, ImportedFigure

# The largest size of memory, bytes.
_LARGEST_SIZE = 2**53

_LONGEST_NAME = 1000

REQUIRED = ("workload", "threads", "variant", "tps")

_UNITS = {"bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# The columns of sizes: the figure's field, and what a number is multiplied with to give bytes.
SIZES = {
    f"{name}_{unit}": (name, factor)
    for name in ("rss", "private")
    for unit, factor in _UNITS.items()
}
_REALS = {"tps": "tps", "qps": "qps", "p95_ms": "p95", "p99_ms": "p99", "seconds": "seconds"}

COLUMNS = ("machine", *REQUIRED, "block", "qps", "p95_ms", "p99_ms", *SIZES, "seconds")


def parse_figures(text: str, origin: str) -> list[ImportedFigure]:
    """Return the figure of each line. UsageError, ``FILE:LINE: …``, for anything that
    docs/import.md does not allow.
    """
    table = delimited_text.parse_delimited(text, origin, _check_heading)
    heading = [name.lower() for name in table.heading]
    numbers = [i for i, name in enumerate(heading) if name in _REALS or name in SIZES]
    mark = delimited_text.find_decimal_mark(table.delimiter, table.list_cells(numbers, origin))
    figures = [
        _parse_figure(dict(zip(heading, row.cells, strict=True)), f"{origin}:{row.line}", mark)
        for row in table.rows
    ]
    check_names(figures)
    if not figures:
        raise UsageError(f"{origin}:{table.line}: no figures below the heading")
    return figures


def check_names(figures: Iterable[ImportedFigure]) -> None:
    """Check the names of figures. UsageError, ``FILE:LINE: …``, for one that cannot be stored."""
    for figure in figures:
        for name, word in (
            ("variant", figure.variant),
            ("workload", figure.workload),
            ("machine", figure.machine),
        ):
            if "\0" in word or len(word) > _LONGEST_NAME:
                raise UsageError(
                    f"{figure.place}: {name}: {readers.shown(word)} is not a valid name"
                )


def _check_heading(names: list[str], place: str) -> None:
    heading = [name.lower() for name in names]
    if heading and not set(heading) & set(REQUIRED):
        raise UsageError(
            f"{place}: not a table of figures: it has none of the columns {', '.join(REQUIRED)}; "
            "outputs of sysbench and others, call stacks and readings of memory are imported as a "
            "directory with an import.toml, see docs/import.md"
        )
    for name in heading:
        if heading.count(name) > 1:
            raise UsageError(f"{place}: column {name!r} appears twice")
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(COLUMNS)}"
            raise UsageError(f"{place}: unknown column {readers.shown(name)}; {hint}")
    if missing := [name for name in REQUIRED if name not in heading]:
        raise UsageError(
            f"{place}: column {missing[0]!r} is missing; needed are {', '.join(REQUIRED)}"
        )
    for field, title in (("rss", "RSS is"), ("private", "private bytes are")):
        if len(sizes := [name for name in heading if SIZES.get(name, ("",))[0] == field]) > 1:
            raise UsageError(f"{place}: {title} given twice, as {' and '.join(sizes)}")


def _parse_figure(line: dict[str, str], place: str, mark: str) -> ImportedFigure:
    for name in ("workload", "variant"):
        if not line[name]:
            raise UsageError(f"{place}: {name} is empty")
    values: dict[str, Any] = {
        field: parse_number(line[name], name, place, mark)
        for name, field in _REALS.items()
        if line.get(name)
    }
    if "tps" not in values:
        raise UsageError(f"{place}: tps is empty")
    for name, (field, unit) in SIZES.items():
        if line.get(name):
            size = parse_number(line[name], name, place, mark) * unit
            if size > _LARGEST_SIZE:
                raise UsageError(f"{place}: {name}: {line[name]!r} is more than any machine has")
            values[field] = round(size)
    if line.get("block"):
        values["block"] = parse_count(line["block"], "block", place)
    threads = parse_count(line["threads"], "threads", place)
    return ImportedFigure(
        place=place,
        workload=line["workload"],
        threads=threads,
        variant=line["variant"],
        machine=line.get("machine") or HERE,
        **values,
    )


def parse_number(text: str, name: str, place: str, mark: str) -> float:
    """Return the number in a cell of column ``name``. UsageError, which begins with ``place``."""
    return _parse(
        text,
        f"{place}: {name}",
        kind=lambda written: delimited_text.parse_decimal(written, mark),
        expected=f"a number like 1234{mark}5",
        is_valid=lambda v: v == 0 or 1e-12 <= v <= 1e15,
    )


def parse_count(text: str, name: str, place: str) -> int:
    """Return the whole number in a cell of column ``name``; UsageError as above."""
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
