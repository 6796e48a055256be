"""Read a file of figures: one line a figure (:mod:`dballoc.intake.csv_figures`), or, as posts have
it, a column a variant and a row a workload. Pure except for opening the file.

Layout of the second kind as Small Datum publishes it; the lines from ``col-1 :`` on are printed by
bench/sysbench.lua/sum_qps_csv.sh of github.com/mdcallag/mytools::

    Relative to: x.glibc.c32r128

    col-1 : x.tcmalloc.c32r128
    col-2 : x.jemalloc.c32r128

    col-1   col-2
    0.99    1.02    hot-points_range=100
    1.05    -       point-query_range=100

``Relative to results with X`` says the same. Without such a line, the figures are queries per
second. The heading may have the variants' names in place of ``col-N`` if the word ``workload``
stands before or after them; such a table may be separated by commas, semicolons or tabs, and have
columns ``threads``, ``block`` and ``machine``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import csv_figures, delimited_text, foreign_kinds
from dballoc.intake.imported_figure import HERE, ImportedFigure

_LARGEST_FILE = 64 * readers.MIB
_MOST_FIGURES = 100_000
# A file with more lines is no table by variants.
_MOST_LINES = 1_000_000
# No longer line is a heading or a statement about the table.
_LONGEST_STATEMENT = 20_000

_RELATIVE = re.compile(r"(?:# ?)?relative to(?: ?:| results with) (.{1,1000})", re.IGNORECASE)
_COLUMN = re.compile(r"(col-\d{1,4}) ?: (.{1,1000})")
_NUMBERED = re.compile(r"col-\d{1,4}")
_WORDS_BEFORE_A_NAME = "results with "

# The columns beside the variants; the first is of every table.
_WORKLOAD = "workload"
_BESIDE = (_WORKLOAD, "threads", "block", "machine")
# Cells of what was not measured.
_MISSING = frozenset(("", "-", "–", "—", "n/a", "na"))
# Below this, every figure of a table may be a ratio, and few servers are as slow.
_LOWEST_RATE = 20.0


def read_figures(path: Path) -> list[ImportedFigure]:
    """Return the figures of a file, of either kind. UsageError, ``FILE:LINE: …``, for anything that
    docs/import.md does not allow.
    """
    with readers.naming(path):
        text = foreign_kinds.read_text(path, _LARGEST_FILE)
    return parse_figures(text, str(path))


def parse_figures(text: str, origin: str) -> list[ImportedFigure]:
    """Return the figures in a file's text; UsageError as for :func:`read_figures`."""
    if text.count("\n") > _MOST_LINES:
        return csv_figures.parse_figures(text, origin)
    lines = text.split("\n")
    tables = _TableReading(origin=origin)
    for number, line in enumerate(lines):
        if tables.is_delimited(line):
            tables.figures += _parse_delimited(lines, number, tables)
            break
        if tables.is_of_single_figures(line):
            if tables.has_heading:
                raise UsageError(
                    f"{origin}:{number + 1}: a table of one figure a line below one by variants; "
                    "give each a file of its own"
                )
            break
        tables.read_line(lines, number)
    if not tables.has_heading:
        return csv_figures.parse_figures(text, origin)
    figures = [*tables.list_aligned(), *tables.figures]
    if not figures:
        raise UsageError(f"{origin}:{len(lines)}: no figures below the heading")
    _check_rates(figures)
    csv_figures.check_names(figures)
    return figures


@dataclass(frozen=True, kw_only=True)
class _Heading:
    """Where the name of the workload stands in a row of an aligned table, and the variants."""

    variants: tuple[str, ...]
    is_name_first: bool
    relative_to: str | None


@dataclass(frozen=True, kw_only=True)
class _AlignedRow:
    """A row of an aligned table: the texts of its cells. ``place``: FILE:LINE."""

    place: str
    heading: _Heading
    workload: str
    cells: tuple[str, ...]


@dataclass(kw_only=True)
class _TableReading:
    """What has been read so far. ``names``: the variants by column; ``relative_to``: of the tables
    that follow; ``heading``: of the table that the next line may belong to; ``figures``: those of a
    delimited table, which is the last of its file.
    """

    origin: str
    names: dict[str, str] = field(default_factory=dict)
    relative_to: str | None = None
    heading: _Heading | None = None
    has_heading: bool = False
    rows: list[_AlignedRow] = field(default_factory=list)
    figures: list[ImportedFigure] = field(default_factory=list)

    def is_delimited(self, line: str) -> bool:
        """Whether a line is the heading of a delimited table by variants."""
        cells = _split_delimited(line)
        return (
            self.heading is None
            and len(cells) > 1
            and _WORKLOAD in cells
            and not _is_of_single_figures(cells)
        )

    def is_of_single_figures(self, line: str) -> bool:
        """Whether a line is the heading of a table of one figure a line."""
        cells = _split_delimited(line)
        return self.heading is None and _WORKLOAD in cells and _is_of_single_figures(cells)

    def read_line(self, lines: list[str], number: int) -> None:
        """Read a line of text or of an aligned table. UsageError if it is a malformed row."""
        line = lines[number]
        place = f"{self.origin}:{number + 1}"
        if not line.strip():
            self.heading = None
        elif self.heading is not None:
            self.rows.append(_parse_row(line, self.heading, place))
            if len(self.rows) * len(self.heading.variants) > _MOST_FIGURES:
                raise UsageError(f"{place}: more than {_MOST_FIGURES:,} figures")
        elif len(line) <= _LONGEST_STATEMENT:
            self._read_statement(" ".join(line.split()), lines, number)

    def _read_statement(self, words: str, lines: list[str], number: int) -> None:
        if match := _RELATIVE.fullmatch(words):
            self.relative_to = match[1]
        elif match := _COLUMN.fullmatch(words):
            self.names[match[1]] = match[2].removeprefix(_WORDS_BEFORE_A_NAME)
        elif (variants := _find_variants(words.split(), lines, number)) is not None:
            place = f"{self.origin}:{number + 1}"
            self.heading = _Heading(
                variants=self.name_variants(variants, place),
                is_name_first=words.lower().startswith(_WORKLOAD),
                relative_to=self.relative_to,
            )
            self.has_heading = True
        elif self.rows and _has_form_of_row(words.split(), self.rows[-1].heading):
            raise UsageError(
                f"{self.origin}:{number + 1}: a row of figures without a heading; put it below the "
                "heading, without empty lines between them"
            )

    def name_variants(self, columns: Iterable[str], place: str) -> tuple[str, ...]:
        """Return the variants of columns. UsageError if one has no name, or two have the same."""
        names = []
        for column in columns:
            name = self.names.get(column.lower(), column)
            if not name or _NUMBERED.fullmatch(name.lower()):
                raise UsageError(
                    f"{place}: {column or 'a column without a name'}: which variant is it? Write a "
                    f"line like 'col-1 : NAME' above the heading"
                )
            if name in names:
                raise UsageError(f"{place}: variant {readers.shown(name)} appears twice")
            names.append(name)
        return tuple(names)

    def list_aligned(self) -> Iterator[ImportedFigure]:
        """Yield the figures of the aligned tables."""
        mark = delimited_text.find_decimal_mark(
            "\t", ((row.place, cell) for row in self.rows for cell in row.cells)
        )
        for row in self.rows:
            base = ImportedFigure(
                place=row.place,
                workload=row.workload,
                threads=None,
                variant="",
                relative_to=row.heading.relative_to,
            )
            yield from _make_figures(base, zip(row.heading.variants, row.cells, strict=True), mark)


def _split_delimited(line: str) -> list[str]:
    """Return the lower-case cells of a line that may be a delimited heading; none of another."""
    if len(line) > _LONGEST_STATEMENT or _WORKLOAD not in line.lower() or "\t\t" in line:
        return []
    return [cell.strip().strip('"').strip().lower() for cell in re.split("[,;\t]", line)]


def _is_of_single_figures(cells: list[str]) -> bool:
    return any(cell in csv_figures.COLUMNS and cell not in _BESIDE for cell in cells)


def _find_variants(words: list[str], lines: list[str], number: int) -> list[str] | None:
    """Return the columns of an aligned heading; None if it is not one: it has ``col-N`` alone, or
    the word ``workload`` at one end, and as many words as the line below.
    """
    if all(_NUMBERED.fullmatch(word) for word in words):
        return words
    ends = [word.lower() for word in (words[0], words[-1])]
    if len(words) < 2 or _WORKLOAD not in ends or number + 1 == len(lines):
        return None
    if len(lines[number + 1].split()) != len(words):
        return None
    return words[1:] if ends[0] == _WORKLOAD else words[:-1]


def _has_form_of_row(words: list[str], heading: _Heading) -> bool:
    count = len(heading.variants)
    cells = words[-count:] if heading.is_name_first else words[:count]
    return len(words) > count and all(_is_number(cell) for cell in cells)


def _is_number(text: str) -> bool:
    return any(delimited_text.parse_decimal(text, mark) is not None for mark in ".,")


def _parse_row(line: str, heading: _Heading, place: str) -> _AlignedRow:
    words, count = line.split(), len(heading.variants)
    if len(words) <= count:
        raise UsageError(
            f"{place}: {readers.shown(line.strip())} is not a row: {count} figures and the name of "
            "a workload"
        )
    if heading.is_name_first:
        cells, name = words[-count:], words[:-count]
    else:
        cells, name = words[:count], words[count:]
    return _AlignedRow(place=place, heading=heading, workload=" ".join(name), cells=tuple(cells))


def _parse_delimited(
    lines: list[str], number: int, tables: _TableReading
) -> Iterator[ImportedFigure]:
    """Yield the figures of a delimited table, whose heading is a line of a text."""
    text = "\n" * number + "\n".join(lines[number:])
    tables.has_heading = True
    table = delimited_text.parse_delimited(text, tables.origin)
    heading = [name.lower() if name.lower() in _BESIDE else name for name in table.heading]
    columns = [i for i, name in enumerate(heading) if name not in _BESIDE]
    place = f"{tables.origin}:{table.line}"
    for name in _BESIDE:
        if heading.count(name) > 1:
            raise UsageError(f"{place}: column {name!r} appears twice")
    variants = tables.name_variants((heading[i] for i in columns), place)
    if len(columns) * len(table.rows) > _MOST_FIGURES:
        raise UsageError(f"{place}: more than {_MOST_FIGURES:,} figures")
    mark = delimited_text.find_decimal_mark(
        table.delimiter, table.list_cells(columns, tables.origin)
    )
    for row in table.rows:
        words = dict(zip(heading, row.cells, strict=True))
        place = f"{tables.origin}:{row.line}"
        if not words[_WORKLOAD]:
            raise UsageError(f"{place}: workload is empty")
        base = ImportedFigure(
            place=place,
            workload=words[_WORKLOAD],
            threads=csv_figures.parse_count(words["threads"], "threads", place)
            if words.get("threads")
            else None,
            variant="",
            machine=words.get("machine") or HERE,
            block=csv_figures.parse_count(words["block"], "block", place)
            if words.get("block")
            else 1,
            relative_to=tables.relative_to,
        )
        cells = zip(variants, (row.cells[i] for i in columns), strict=True)
        yield from _make_figures(base, cells, mark)


def _make_figures(
    base: ImportedFigure, cells: Iterable[tuple[str, str]], mark: str
) -> Iterator[ImportedFigure]:
    """Yield the figures of a row: of the variant that they are relative to, which is 1, first.
    ``base``: what they have in common.
    """
    row = {
        variant: csv_figures.parse_number(text, variant, base.place, mark)
        for variant, text in cells
        if text.lower() not in _MISSING
    }
    if base.relative_to is not None and row:
        row = {base.relative_to: 1.0, **row}
    for variant, value in row.items():
        yield replace(base, variant=variant, qps=value)


def _check_rates(figures: list[ImportedFigure]) -> None:
    """Check that figures that are not said to be ratios do not look like them."""
    rates = [figure for figure in figures if figure.relative_to is None]
    values = [figure.qps or 0.0 for figure in rates]
    if rates and max(values) < _LOWEST_RATE:
        raise UsageError(
            f"{rates[0].place}: figures from {min(values):g} to {max(values):g} look like ratios; "
            "write 'Relative to: NAME' in a line above the heading (queries per second as low as "
            "these: in a table of one figure a line)"
        )
