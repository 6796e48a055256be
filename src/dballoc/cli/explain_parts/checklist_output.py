"""How the sections of ``dballoc explain --procedure`` are shown."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.numbers import with_unit


def show(console: Console, sections: list[Section]) -> None:
    """Each with its title, where it is from, and its table or why there is none."""
    for part in sections:
        console.print()
        console.print(Text(part.title, style="bold"))
        console.print(Text(f"from: {part.source}", style="dim"), soft_wrap=True)
        if part.missing:
            console.print(Text(part.missing))
            continue
        table = Table(
            box=None,
            pad_edge=False,
            header_style="dim",
            padding=(0, 2, 0, 0),
            show_header=part.columns[0] != "what",
        )
        for i, heading in enumerate(part.columns):
            numeric = part.rows and all(isinstance(row[i], int | float | None) for row in part.rows)
            table.add_column(heading, justify="right" if numeric else "left")
        for row in part.rows:
            table.add_row(*(Text(_shown(cell)) for cell in row))
        console.print(table)


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Bytes):
        return with_unit(cell)
    if isinstance(cell, float):
        return f"{cell:,.3g}" if abs(cell) < 10 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
