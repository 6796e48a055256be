"""The rows of ``dballoc list`` on a terminal, or in a pipe."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from dballoc.cli.list_parts.inventory_rows import Row
from dballoc.cli.shared.safe_output import Console, say


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table on a terminal; in a pipe, a line of headings and one line for each row, with
    tabs between the cells.
    """
    console = Console()
    if not console.is_terminal:
        say("\t".join(rows[0]))
        for row in rows:
            say("\t".join(_cell(value, ", ") for value in row.values()))
        return
    # An installed item has a path, any other a remedy: one column holds either.
    headings = [key for key in rows[0] if key != "remedy"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for row in rows:
        table.add_row(*(_text(row, heading) for heading in headings))
    console.print(table)


def _text(row: Row, heading: str) -> Text:
    if heading == "here" and row.get("remedy"):
        return Text(f"→ {row['remedy']}", style="cyan")
    return Text(
        _cell(row[heading], "\n" if heading == "here" else ", "),
        style="dim" if row.get("remedy") else "",
    )


def _cell(value: Any, joint: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return joint.join(map(str, value))
        case _:
            return str(value)


def spread_comparisons(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each setting that a post states or that the run has chosen, for what else
    the post states, for each reason why a topic cannot be as in the post, and for each thing that
    nothing stands for.
    """
    return [
        {"name": row["name"], **dict(zip(_COMPARED, cells, strict=True))}
        for row in rows
        for cells in _list_cells(row)
    ]


_COMPARED = ("differs", "topic", "the post", "paragraph", "the run")


def _list_cells(row: Row) -> Iterator[tuple[str, ...]]:
    yield "", "source", row["source"] or "", "", ""
    for c in row["post"]:
        topic = f"{c['topic']} {c['item']}".strip()
        yield "≠" if c["differs"] else "", topic, c["post"], c["paragraph"], c["run"]
    for note in row["notes"]:
        yield "", f"note: {note['item']}", note["post"], note["paragraph"], ""
    for topic, why in row["reasons"].items():
        yield "", f"why: {topic}", "", "", why
    for name, why in row["no_stand_in"].items():
        yield "", "no stand-in", name, "", why
