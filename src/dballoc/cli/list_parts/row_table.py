"""The rows of ``dballoc list`` on a terminal, or in a pipe."""

from collections.abc import Sequence
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
    """Return a row for each setting that a post states or that the run has chosen, for each reason
    why a topic cannot be as in the post, and for each thing that nothing stands for.
    """
    spread = []
    for row in rows:
        words = ": ".join(filter(None, [row["source"], row["machine"]]))
        cells = [
            (False, "source", words, ""),
            *(
                (c["differs"], " ".join(filter(None, [c["topic"], c["item"]])), c["post"], c["run"])
                for c in row["post"]
            ),
            *((False, f"why: {topic}", "", why) for topic, why in row["reasons"].items()),
            *((False, "no stand-in", name, why) for name, why in row["no_stand_in"].items()),
        ]
        spread += [
            {
                "name": row["name"],
                "differs": "≠" if differs else "",
                "topic": topic,
                "the post": post,
                "the run": run,
            }
            for differs, topic, post, run in cells
        ]
    return spread
