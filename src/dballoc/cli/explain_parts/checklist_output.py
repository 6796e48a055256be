"""How the sections of ``dballoc explain --procedure`` are shown."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.explain.checklist.section import Section, format_cell, list_numeric_columns

# A table with more columns does not fit a terminal: each of its rows is shown as a list, as the
# clients do it for \\G.
_MOST_COLUMNS = 8


def print_sections(console: Console, sections: list[Section]) -> None:
    """Print each with its title, its source, and its table or why there is none."""
    for section in sections:
        console.print()
        console.print(Text(section.title, style="bold"))
        console.print(Text(f"from: {section.source}", style="dim"), soft_wrap=True)
        if section.missing:
            console.print(Text(section.missing))
        elif len(section.columns) > _MOST_COLUMNS:
            _print_rows_as_lists(console, section)
        else:
            console.print(_make_table(section))
        if section.note:
            console.print(Text(f"· {section.note}", style="dim"))


def _make_table(section: Section) -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        header_style="dim",
        padding=(0, 2, 0, 0),
        show_header=section.columns[0] != "what",
    )
    for heading, numeric in zip(section.columns, list_numeric_columns(section), strict=True):
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in section.rows:
        table.add_row(*(Text(format_cell(cell)) for cell in row))
    return table


def _print_rows_as_lists(console: Console, section: Section) -> None:
    for number, row in enumerate(section.rows, 1):
        console.print(Text(f"row {number}", style="dim"))
        table = Table.grid(padding=(0, 2, 0, 2))
        table.add_column(justify="right")
        for heading, cell in zip(section.columns, row, strict=True):
            table.add_row(Text(heading, style="dim"), Text(format_cell(cell)))
        console.print(table)
