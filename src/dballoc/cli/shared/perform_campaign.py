"""Run a campaign for a verb: show it, write its report, say how it ended."""

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from dballoc.campaign import run_blocks
from dballoc.campaign.looks import Extension, Looks, NoLooks
from dballoc.campaign.preparation.prepared import Prepared
from dballoc.campaign.run_blocks import CampaignKind, RunEnding
from dballoc.campaign.ways.servers import SERVERS
from dballoc.cli.shared.campaign_display import display
from dballoc.document.model import Document
from dballoc.document.terminal import print_document
from dballoc.ground.errors import Failure
from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY, Preference

INTERRUPTED = 130

ENDINGS = {
    "planned": "all planned blocks are done",
    "decided": "every comparison is decided",
    "budget": "the budget is used up",
    "interrupted": "interrupted; run the same command to resume",
}


def perform(
    setting: Prepared,
    directory: Path,
    console: Console,
    show: Callable[[Document], None] | None = None,
    preference: Preference = LEAST_MEMORY,
    report: bool = True,
    extension: Extension | None = None,
    kind: CampaignKind = SERVERS,
) -> None:
    """Run or resume the campaign of this ``kind``, or its ``extension``, write its ``report``, and
    print the answer, or what ``show`` prints instead. Raises Failure if no trial ended well;
    typer.Exit after an interruption; UsageError and Failure as the campaign raises them.
    """
    # Slow to import, and not there where dballoc only measures: polars.
    from dballoc.campaign.interim_looks import InterimLooks

    ending = _run(setting, directory, console, InterimLooks(), kind, extension)
    if run_blocks.has_trials(directory):
        show_report(console, directory, show, preference=preference, report=report)
        if setting.experiment.published:
            quoted = shlex.quote(os.fspath(directory))
            console.print(
                f"Beside the published figures: dballoc report {quoted} --published",
                soft_wrap=True,
                highlight=False,
                markup=False,
            )
    _check_ending(ending)


def measure(setting: Prepared, directory: Path, console: Console, kind: CampaignKind) -> None:
    """Run or resume the campaign of this ``kind`` without judging it, and print where its results
    are and how to see them. Raises as :func:`perform` does.
    """
    ending = _run(setting, directory, console, NoLooks(), replace(kind, measured_only=True))
    if ending.why != "interrupted":
        quoted = shlex.quote(os.fspath(directory))
        console.print(
            f"Results: {directory}\nThey are not judged yet: copy the directory to where "
            f"dballoc[report] is installed, and there run dballoc report {quoted}",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
    _check_ending(ending)


def _run(
    setting: Prepared,
    directory: Path,
    console: Console,
    looks: Looks,
    kind: CampaignKind,
    extension: Extension | None = None,
) -> RunEnding:
    """Run or resume the campaign, and print how it ended."""
    with display(console) as watcher:
        ending = run_blocks.run_campaign(
            setting, directory, watcher, looks=looks, extension=extension, kind=kind
        )
    blocks_done = ", ".join(f"{number} {design} blocks" for design, number in ending.blocks.items())
    console.print(f"{describe_ending(ending)} ({blocks_done})\n", highlight=False)
    return ending


def _check_ending(ending: RunEnding) -> None:
    if ending.why == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if ending.good_trials == 0:
        raise Failure(
            "every trial ended in a fault; the report has each server's and client's message"
        )


def describe_ending(ending: RunEnding) -> str:
    """Return why a campaign ended, naming the designs that ended before their last block."""
    words = ENDINGS[ending.why]
    if ending.why not in ("planned", "budget") or not ending.decided:
        return words
    return f"{words}; every {' and '.join(ending.decided)} comparison is decided"


def show_report(
    console: Console,
    directory: Path,
    show: Callable[[Document], None] | None = None,
    *,
    preference: Preference = LEAST_MEMORY,
    report: bool = True,
) -> Document:
    """Write the ``report`` of a results directory, and print its answer, or what ``show`` prints
    instead, and where the report is. Returns the report as a document.
    """
    # Slow to import: polars, scipy, vl-convert.
    from dballoc.questions.write_report import gather_document, write_document

    document = gather_document(directory, preference=preference)
    page = write_document(document, directory) if report else None
    if show is None:
        print_document(console, document)
    else:
        show(document)
    quoted = shlex.quote(os.fspath(directory))
    where = f"Report: {page}" if page else f"No report yet; write it with: dballoc report {quoted}"
    console.print(f"\n{where}", soft_wrap=True, highlight=False, markup=False)
    return document
