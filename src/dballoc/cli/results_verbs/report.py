"""``dballoc report``: the report of a results directory."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dballoc import catalogue
from dballoc.cli.shared import flags, published_posts
from dballoc.cli.shared.safe_output import Console, print_json
from dballoc.document.terminal import print_document
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import (
    parse_margin,
    parse_preference,
)
from dballoc.questions.fit.figures import is_fit
from dballoc.questions.tune.search_history import is_search

Margin = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="What a variant may lose and still count as no worse, instead of what was stored "
        "before the campaign (3% unless bench --margin). The answer is labelled exploratory.",
    ),
]

Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A results directory of dballoc bench, fit, tune, aa or import."
    ),
]
Post = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="With --published: which published figures, where the results do not say it.",
    ),
]
WithPublished = Annotated[
    bool,
    typer.Option(
        "--published",
        help="Show the figures of the post that the experiment repeats beside ours. For imported "
        "results, give the post's NAME; those that were imported with --published have it anyway.",
    ),
]


def report(
    directory: Directory,
    post: Post = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to write; default: into DIR.")
    ] = None,
    redact: flags.Redact = False,
    prefer: flags.Prefer = None,
    margin: Margin = None,
    published: WithPublished = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the recommendation, or the answer of fit or tune, as JSON; the same as "
            "recommendation.json, fit.json or tune.json.",
        ),
    ] = False,
) -> None:
    """Write report.html, report.md, recommendation.json, csv/, charts/ from a results directory
    alone; print the answer. With --redact also redacted/results.sqlite, to send to others.
    """
    # Slow to import: polars, scipy, vl-convert.
    from dballoc.questions.redacted_copy import write_redacted_copy
    from dballoc.questions.write_report import gather_document, write_document

    if post is not None and not published:
        raise UsageError(
            f"{readers.shown(post)}: report takes one directory; for published figures: dballoc "
            f"report {directory} --published NAME"
        )
    directory, post = order_arguments(directory, post)
    preference = replace(parse_preference(prefer), margin=parse_margin(margin))
    of_fit, of_tune = is_fit(directory), is_search(directory)
    for value, flag, why in (
        (prefer, "--prefer", "recommends nothing"),
        (margin, "--margin", "recommends nothing"),
        (published, "--published", "does not reproduce a published post"),
    ):
        if of_fit and value:
            raise UsageError(f"{flag}: {directory} holds results of dballoc fit, which {why}")
        if of_tune and value:
            raise UsageError(
                f"{flag}: {directory} holds results of dballoc tune, whose rule was declared "
                "before its confirmation; give a directory below its confirmation/"
            )
    figures = None if of_fit or of_tune else published_posts.find(directory, post, published)
    document = gather_document(directory, redact, preference, figures)
    page = write_document(document, out or directory, redact)
    copy = write_redacted_copy(directory, out or directory) if redact else None
    if as_json:
        print_json(document.data)
        return
    console = Console()
    print_document(console, document)
    files = [f"\nReport: {page}"]
    if copy:
        files.append(f"Results without names, to send to others: {copy}")
    console.print("\n".join(files), soft_wrap=True, highlight=False, markup=False)


def order_arguments(directory: Path, post: str | None) -> tuple[Path, str | None]:
    """Return the directory and the name of the published figures, which ``--published NAME DIR``
    gives the other way round.
    """
    if post is None or directory.exists() or str(directory) not in catalogue.published():
        return directory, post
    return Path(post), str(directory)
