"""``dballoc report``: the report of a results directory."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dballoc import report as room
from dballoc.analysis.decisions.preference import parse_margin, parse_preference
from dballoc.analysis.tables.largest_cache import is_fit
from dballoc.cli.shared import published_posts
from dballoc.cli.shared.safe_output import Console
from dballoc.errors import UsageError
from dballoc.report.outputs import terminal

Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="memory|speed|CONDITION,…",
        help="What comes first: memory (the default) or speed, where a variant is better in one "
        "and no worse in the other; or conditions that it must be shown to keep to, like "
        "'p99<=1.05,rss<=1.1', which take the margin's place. With conditions no campaign ends "
        "with a choice between a gain and a loss.",
    ),
]
Margin = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="What a variant may lose and still count as no worse, instead of what was stored "
        "before the campaign (3% unless bench --margin). The answer is labelled exploratory.",
    ),
]


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A results directory of dballoc bench or fit.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to write; default: into DIR.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Replace names of host and users, and paths.")
    ] = False,
    prefer: Prefer = None,
    margin: Margin = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Show the figures of the post that the experiment repeats beside ours.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the recommendation, or fit's answer, as JSON; the same as "
            "recommendation.json or fit.json.",
        ),
    ] = False,
) -> None:
    """Write report.html, report.md, recommendation.json, csv/, charts/ from a results directory
    alone; print the answer.
    """
    preference = replace(parse_preference(prefer), margin=parse_margin(margin))
    of_fit = is_fit(directory)
    for value, flag, why in (
        (prefer, "--prefer", "recommends nothing"),
        (margin, "--margin", "recommends nothing"),
        (published, "--published", "does not reproduce a published post"),
    ):
        if of_fit and value:
            raise UsageError(f"{flag}: {directory} holds results of dballoc fit, which {why}")
    post = published_posts.of(directory) if published else None
    page = room.write_report_outputs(directory, out, redact, preference, post)
    if as_json:
        print(
            page.with_name("fit.json" if of_fit else "recommendation.json").read_text(
                encoding="utf-8"
            ),
            end="",
        )
        return
    console = Console()
    if of_fit:
        terminal.print_fit(console, directory)
    else:
        terminal.print_answer(console, directory, preference)
        if post:
            terminal.print_published(console, directory, post)
    console.print(f"\nReport: {page}", soft_wrap=True, highlight=False, markup=False)
