"""``dballoc report``: the report of a results directory."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dballoc import report as room
from dballoc.report import terminal


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory of dballoc bench.")],
    out: Annotated[Path | None, typer.Option(metavar="PATH", help="Where to write; default: into DIR.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Replace names of host and users, and paths.")] = False,
) -> None:
    """Write report.html, report.md, csv/ and charts/ from a results directory alone, and print the answer."""
    page = room.write(directory, out, redact)
    console = Console()
    terminal.print_answer(console, directory)
    console.print(f"\nReport: {page}", soft_wrap=True, highlight=False, markup=False)
