"""Read delimited text as Export-Csv, spreadsheets and exporters of traces write it: a line
``#TYPE …`` in front, commas, semicolons or tabs between the cells, points or commas in the numbers.
Pure.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dballoc.ground import readers
from dballoc.ground.errors import UsageError

_DELIMITERS = (",", ";", "\t")
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
_TYPE = re.compile(r"#TYPE [^\n]*\n?")
_QUOTED = re.compile(r'"(?:[^"]|"")*"?')
_PLAIN_NUMBER = r"[+-]?(?:\d+(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d{{1,3}})?"
_MOST_COLUMNS = 1000


class Row(NamedTuple):
    """The cells of a line, stripped, and the line's number, which is that of its end."""

    line: int
    cells: list[str]


@dataclass(frozen=True)
class Delimited:
    """A table as text. ``heading``: the columns' names as they are written, in ``line``."""

    delimiter: str
    line: int
    heading: list[str]
    rows: list[Row]

    def list_cells(self, columns: Iterable[int], origin: str) -> Iterator[tuple[str, str]]:
        """Yield the places, ``FILE:LINE``, and texts of the cells in some columns."""
        numbers = list(columns)
        for row in self.rows:
            for number in numbers:
                yield f"{origin}:{row.line}", row.cells[number]


def parse_delimited(
    text: str, origin: str, check_heading: Callable[[list[str], str], None] | None = None
) -> Delimited:
    """Return the table. Lines without any text are left out. ``check_heading`` is called with the
    heading and its place before lines are read. UsageError, ``FILE:LINE: …``, if it is not
    delimited text, or if a line has more or fewer cells than the heading.
    """
    table = text.lstrip("\n")
    skipped = len(text) - len(table)
    if match := _TYPE.match(table):
        table, skipped = table[match.end() :], skipped + 1
    first = table.partition("\n")[0]
    delimiter = _find_delimiter(first, f"{origin}:{skipped + 1}")
    reader = csv.reader(io.StringIO(table, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    try:
        heading = [name.strip() for name in next(reader, [])]
        if len(heading) > _MOST_COLUMNS:
            raise UsageError(f"{origin}:{skipped + 1}: more than {_MOST_COLUMNS:,} columns")
        if check_heading is not None:
            check_heading(heading, f"{origin}:{skipped + 1}")
        for raw in reader:
            cells = [cell.strip() for cell in raw]
            line = reader.line_num + skipped
            if not any(cells):
                continue
            if len(cells) != len(heading):
                raise UsageError(
                    f"{origin}:{line}: {len(cells)} columns, but the heading has {len(heading)}"
                )
            rows.append(Row(line, cells))
    except csv.Error as error:
        raise UsageError(f"{origin}:{reader.line_num + skipped}: not CSV: {error}") from None
    return Delimited(delimiter, skipped + 1, heading, rows)


def find_decimal_mark(delimiter: str, cells: Iterable[tuple[str, str]]) -> str:
    """Return what marks decimals in the numbers of ``cells``, texts with their places. A table that
    is separated by commas has points. Raises UsageError if the numbers do not tell: some have a
    comma and some a point, or all have three digits after it, as where it marks thousands.
    """
    if delimiter == ",":
        return "."
    first: dict[str, tuple[str, str]] = {}
    undecided = {",": True, ".": True}
    for place, text in cells:
        for mark in (",", "."):
            if mark in text:
                first.setdefault(mark, (place, text))
                if not re.fullmatch(rf"[+-]?\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+", text):
                    undecided[mark] = False
    if len(first) == 2:
        (place, text), (other, differing) = first["."], first[","]
        raise UsageError(
            f"{place}: {readers.shown(text)} has a point, but {readers.shown(differing)} in line "
            f"{other.rpartition(':')[2]} a comma; write all decimals alike, and no thousands"
        )
    for mark, (place, text) in first.items():
        # Tabs come from everywhere, semicolons from where commas mark decimals.
        if undecided[mark] and (mark, delimiter) != (".", "\t"):
            raise UsageError(
                f"{place}: {readers.shown(text)} may be thousands or decimals, as every number "
                "has three digits after the mark; separate the columns by commas, and write "
                "decimals with a point"
            )
        return mark
    return "."


def parse_decimal(text: str, mark: str) -> float | None:
    """Return the number in a cell whose decimals follow ``mark``; None if it is not one."""
    if not re.fullmatch(_PLAIN_NUMBER.format(mark=re.escape(mark)), text, re.ASCII):
        return None
    return float(text.replace(mark, "."))


def _find_delimiter(heading: str, place: str) -> str:
    bare = _QUOTED.sub("", heading)
    counts = {delimiter: bare.count(delimiter) for delimiter in _DELIMITERS}
    most = max(counts.values())
    often = [delimiter for delimiter, number in counts.items() if number == most]
    if most and len(often) > 1:
        names = " and ".join(_NAMES[delimiter] for delimiter in often)
        raise UsageError(f"{place}: {names} separate the columns of the heading alike; use one")
    return often[0] if most else ","
