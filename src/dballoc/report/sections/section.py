"""The parts of a report that every output shows."""

from dataclasses import dataclass, field

from dballoc.report.charts.variant_marks import Figure
from dballoc.report.sections.tables import Table


@dataclass(frozen=True)
class Listing:
    """Text shown as it is: a log's tail, a command, the experiment file."""

    title: str
    text: str


@dataclass(frozen=True)
class Embed:
    """A flame graph: ``html``, an element of the page; ``page``: the same as a page of its own,
    ``charts/KEY.html``.
    """

    key: str
    title: str
    html: str
    page: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with its text, figures, tables, listings and flame graphs."""

    key: str
    title: str
    text: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    embeds: list[Embed] = field(default_factory=list)
