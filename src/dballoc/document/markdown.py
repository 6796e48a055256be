"""A document as Markdown, with the charts' SVG files beside it."""

import re
from collections.abc import Iterable

from dballoc.document.model import REPLACED, Document, Listing, PostNote, Table

# What could begin markup within a line, end a cell, or make a link of an address.
_SPECIAL = re.compile(r"([\\`*_\[\]|~#]|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def render_markdown(document: Document, redacted: bool) -> str:
    """Return a document as Markdown. ``redacted``: whether names in it were replaced."""
    answer = document.answer
    parts = [
        f"# {escape_markdown(document.title)}",
        escape_markdown(document.subtitle),
        f"**{escape_markdown(answer.headline)}.** {escape_markdown(answer.reason)}",
    ]
    if answer.command:
        parts.append(f"```sh\n{answer.command}\n```")
    if answer.table:
        parts.append(f"{_render_cells(answer.table)}\n\n{escape_markdown(answer.table.caption)}")
    if answer.variants:
        lines = [
            f"- **{escape_markdown(v.name)}**: {escape_markdown(v.text)}" for v in answer.variants
        ]
        parts.append(f"{escape_markdown(answer.against)}:\n\n" + "\n".join(lines))
    notes = [
        *answer.notes,
        *([REPLACED] if redacted else []),
    ]
    listed = [f"- {escape_markdown(note)}" for note in notes]
    parts.append("\n".join([*(list_post_lines(answer.post) if answer.post else []), *listed]))
    for section in document.sections:
        parts += [
            f"## {escape_markdown(section.title)}",
            *(escape_markdown(p) for p in section.text),
        ]
        parts += [_render_table(t) for t in section.tables]
        for f in section.figures:
            parts.append(
                "### "
                f"{escape_markdown(f.title)}\n\n![{escape_markdown(f.title)}](charts/{f.key}.svg)\n\n{escape_markdown(f.caption)}"
            )
        parts += [
            f"Flame graph: [{escape_markdown(e.title)}](charts/{e.key}.html)"
            for e in section.embeds
        ]
        parts += [_render_listing(x) for x in section.listings]
    return "\n\n".join(parts) + "\n"


def list_post_lines(note: PostNote) -> list[str]:
    """Return the lines on what differs from the post, topic by topic."""
    lines = [f"- {escape_markdown(note.intro)}"]
    for topic in note.topics:
        lines.append(f"  - **{escape_markdown(topic.title)}**")
        lines += [f"    - {escape_markdown(line)}" for line in topic.lines]
    return [*lines, *([f"  - {escape_markdown(note.silent)}"] if note.silent else [])]


def escape_markdown(text: str) -> str:
    """Return any text escaped: no markup, no HTML, one line."""
    safe = (
        _SPECIAL.sub(r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    return " ".join(safe.split())


def _escape_cell(cell: str) -> str:
    return "<br>".join(map(escape_markdown, cell.split("\n")))


def _join_cells(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _render_table(table: Table) -> str:
    head = f"**{escape_markdown(table.title)}.** {escape_markdown(table.caption)}".strip()
    return f"{head}\n\n{_render_cells(table)}"


def _render_cells(table: Table) -> str:
    rule = _join_cells("---:" if is_number else "---" for is_number in table.numeric)
    rows = [_join_cells(map(_escape_cell, row)) for row in table.rows]
    return "\n".join([_join_cells(map(escape_markdown, table.columns)), rule, *rows])


def _render_listing(listing: Listing) -> str:
    """Return a listing in a fence longer than any run of backticks within."""
    longest = max((len(run) for run in re.findall(r"`+", listing.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"**{escape_markdown(listing.title)}**\n\n{fence}text\n{listing.text.rstrip()}\n{fence}"
