"""A section of the report beside the ledger: a table and its source, or why it is missing."""

from collections.abc import Sequence
from dataclasses import dataclass, field


class Bytes(int):
    """A number that is shown as bytes."""


Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled table. ``source``: the statement or the files that its ``rows`` are from;
    ``missing``: why there are no rows, and what to do.
    """

    title: str
    source: str
    columns: tuple[str, ...] = ("what", "value")
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    missing: str | None = None


def build_facts(title: str, source: str, rows: Sequence[tuple[str, Cell]]) -> Section:
    """Return a section of names and values, without the names that have no value."""
    return Section(
        title=title,
        source=source,
        rows=[(name, value) for name, value in rows if value not in (None, "")],
    )
