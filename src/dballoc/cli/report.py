"""``dballoc report``: the report of a results directory."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dballoc import report as room
from dballoc.analysis.preference import parse
from dballoc.cli import posts
from dballoc.report import terminal

Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="memory|speed|CONDITION,…",
        help="What the recommendation is after: memory (the default: of those not shown slower by more than 1 %, the one with "
        "the least peak RSS), speed (of those not shown to need more than 1 % more, the fastest), or conditions that must not "
        "be shown broken, like 'p99<=1.05,rss<=1.1'.",
    ),
]


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory of dballoc bench.")],
    out: Annotated[Path | None, typer.Option(metavar="PATH", help="Where to write; default: into DIR.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Replace names of host and users, and paths.")] = False,
    prefer: Prefer = None,
    published: Annotated[
        bool, typer.Option("--published", help="Set the figures of the post that the experiment repeats beside ours.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the recommendation for machines; recommendation.json is the same.")
    ] = False,
) -> None:
    """Write report.html, report.md, recommendation.json, csv/, charts/ from a results directory alone; print the answer."""
    preference = parse(prefer)
    page = room.write(directory, out, redact, preference, posts.of(directory) if published else None)
    if as_json:
        print(page.with_name("recommendation.json").read_text(encoding="utf-8"), end="")
        return
    console = Console()
    terminal.print_answer(console, directory, preference)
    console.print(f"\nReport: {page}", soft_wrap=True, highlight=False, markup=False)
