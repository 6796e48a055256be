"""A section of the report beside the ledger: a table and its source, or why it is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from dballoc.numbers import with_unit


class Bytes(int):
    """A number that is shown as bytes."""


Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class ChecklistSection:
    """A titled table. ``source``: the statement or the files that its ``rows`` are from;
    ``missing``: why there are no rows, and what to do; ``note``: what the rows leave out, and why.
    """

    title: str
    source: str
    columns: Annotated[tuple[str, ...], Field(min_length=1, max_length=40)] = ("what", "value")
    rows: Annotated[list[tuple[Cell, ...]], Field(max_length=10_000)] = field(default_factory=list)
    missing: str | None = None
    note: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields, and in ``bytes`` the (row, column) of each cell that is a number of bytes."""
        places = [
            (number, column)
            for number, row in enumerate(self.rows)
            for column, cell in enumerate(row)
            if isinstance(cell, Bytes)
        ]
        return vars(self) | {"bytes": places}


def build_facts(title: str, source: str, rows: Sequence[tuple[str, Cell]]) -> ChecklistSection:
    """Return a section of names and values, without the names that have no value."""
    return ChecklistSection(
        title=title,
        source=source,
        rows=[(name, value) for name, value in rows if value not in (None, "")],
    )


def format_cell(cell: Cell) -> str:
    """Return a cell as people read it."""
    if cell is None:
        return ""
    if isinstance(cell, Bytes):
        return with_unit(cell) if cell >= 0 else f"−{with_unit(-cell)}"
    if isinstance(cell, float):
        return f"{cell:,.3g}" if abs(cell) < 10 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def list_numeric_columns(section: ChecklistSection) -> list[bool]:
    """Return for each column whether all its cells are numbers or empty."""
    return [
        bool(section.rows) and all(isinstance(row[i], int | float | None) for row in section.rows)
        for i in range(len(section.columns))
    ]


def format_share(part: int, total: int) -> str | None:
    """Return a part as ``1,024 of 4,096 (25%)``; None of nothing."""
    return f"{part:,} of {total:,} ({part / total:.0%})" if total else None


@dataclass(frozen=True, kw_only=True)
class _SavedSection(ChecklistSection):
    """A section as :meth:`ChecklistSection.as_json` writes it."""

    bytes: Annotated[list[tuple[int, int]], Field(max_length=400_000)] = field(default_factory=list)


_SAVED = TypeAdapter(Annotated[list[_SavedSection], Field(max_length=100)])


def parse_sections(saved: Any) -> list[ChecklistSection]:
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
