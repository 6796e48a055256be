"""A part of the report beside the ledger: a table, where it is from, or why it is not there."""

from collections.abc import Sequence
from dataclasses import dataclass, field


class Bytes(int):
    """A number of bytes, to be shown as such."""


Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Section:
    """``source``: the statement or the files that its ``rows`` are from; ``missing``: why there are
    none, and what to do.
    """

    title: str
    source: str
    columns: tuple[str, ...] = ("what", "value")
    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    missing: str | None = None


def facts(title: str, source: str, rows: Sequence[tuple[str, Cell]]) -> Section:
    """A section of names and values; what has no value is left out."""
    return Section(
        title=title,
        source=source,
        rows=[(name, value) for name, value in rows if value not in (None, "")],
    )
