"""The report as Markdown, with the charts' SVG files beside it."""

import re

from dballoc.report.outputs.page import Page
from dballoc.report.sections.section import Listing
from dballoc.report.sections.tables import Table

# What could begin markup within a line, or end a cell.
_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def render(content: Page, redacted: bool) -> str:
    """The file's text."""
    said = content.answer
    parts = [
        f"# {escape(content.title)}",
        escape(content.subtitle),
        f"**{escape(said.headline)}.** {escape(said.reason)}",
    ]
    if said.variants:
        lines = [f"- **{escape(v.name)}**: {escape(v.text)}" for v in said.variants]
        parts.append(f"{escape(said.against)}:\n\n" + "\n".join(lines))
    if said.floor:
        parts.append(f"**{escape(said.floor.name)}**: {escape(said.floor.text)}.")
    notes = [
        *said.notes,
        *(
            ["Names of the host and of users, and paths, were replaced in this report."]
            if redacted
            else []
        ),
    ]
    parts.append("\n".join(f"- {escape(note)}" for note in notes))
    for section in content.sections:
        parts += [f"## {escape(section.title)}", *(escape(p) for p in section.text)]
        parts += [_table(t) for t in section.tables]
        for f in section.figures:
            parts.append(
                "### "
                f"{escape(f.title)}\n\n![{escape(f.title)}](charts/{f.key}.svg)\n\n{escape(f.caption)}"
            )
        parts += [f"Flame graph: [{escape(e.title)}](charts/{e.key}.html)" for e in section.embeds]
        parts += [_listing(x) for x in section.listings]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Text of any origin as text: no markup, no HTML, one line."""
    safe = (
        _SPECIAL.sub(r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    return " ".join(safe.split())


def _table(table: Table) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rule = line(
        [
            "---" if i < table.heads or c in table.words else "---:"
            for i, c in enumerate(table.columns)
        ]
    )
    rows = [
        line(["<br>".join(map(escape, cell.split("\n"))) for cell in row]) for row in table.rows
    ]
    head = f"**{escape(table.title)}.** {escape(table.caption)}".strip()
    return "\n".join([head, "", line([escape(c) for c in table.columns]), rule, *rows])


def _listing(listing: Listing) -> str:
    """A fence longer than any run of backticks within."""
    longest = max((len(run) for run in re.findall(r"`+", listing.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"**{escape(listing.title)}**\n\n{fence}text\n{listing.text.rstrip()}\n{fence}"
