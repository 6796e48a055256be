"""How the sections of ``dballoc explain --procedure`` are shown."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.numbers import with_unit


def print_sections(console: Console, sections: list[Section]) -> None:
    """Print each with its title, its source, and its table or why there is none."""
    for section in sections:
        console.print()
        console.print(Text(section.title, style="bold"))
        console.print(Text(f"from: {section.source}", style="dim"), soft_wrap=True)
        if section.missing:
            console.print(Text(section.missing))
            continue
        table = Table(
            box=None,
            pad_edge=False,
            header_style="dim",
            padding=(0, 2, 0, 0),
            show_header=section.columns[0] != "what",
        )
        for i, heading in enumerate(section.columns):
            numeric = section.rows and all(
                isinstance(row[i], int | float | None) for row in section.rows
            )
            table.add_column(heading, justify="right" if numeric else "left")
        for row in section.rows:
            table.add_row(*(Text(_format_cell(cell)) for cell in row))
        console.print(table)


def _format_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Bytes):
        return with_unit(cell)
    if isinstance(cell, float):
        return f"{cell:,.3g}" if abs(cell) < 10 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
