"""A section of the report beside the ledger: a table and its source, or why it is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dballoc.ground.numbers import with_unit


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
    columns: tuple[str, ...] = ("what", "value")
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
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
