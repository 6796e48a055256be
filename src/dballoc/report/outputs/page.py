"""What a page shows, whatever it reports."""

from dataclasses import dataclass

from dballoc.report.charts.variant_marks import Figure
from dballoc.report.sections.section import Embed, Section
from dballoc.report.wording.answer import Answer


@dataclass(frozen=True, kw_only=True)
class Page:
    """A report's title, answer and sections. ``names``: of the variants, the first one first in
    every legend.
    """

    title: str
    subtitle: str
    names: list[str]
    answer: Answer
    sections: list[Section]

    @property
    def figures(self) -> list[Figure]:
        """All charts."""
        return [figure for section in self.sections for figure in section.figures]

    @property
    def embeds(self) -> list[Embed]:
        """All flame graphs."""
        return [embed for section in self.sections for embed in section.embeds]
