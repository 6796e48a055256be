"""The answer on the terminal: a sentence or two and one small table."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference
from dballoc.analysis.published.collapse_seen import find_collapses_here
from dballoc.analysis.published.imported_machines import split_by_machine
from dballoc.analysis.published.published_figures import Published
from dballoc.analysis.tables.profiles.contention import load_contention
from dballoc.analysis.tables.profiles.imported_profiles import load_imported_profiles
from dballoc.document import terminal
from dballoc.document.model import Table
from dballoc.report.wording.published_collapse import describe_collapse


def print_answer(console: Console, directory: Path, preference: Preference = LEAST_MEMORY) -> None:
    """Print the answer of a results directory. UsageError if there is nothing to report."""
    from dballoc.report import (
        report_content,
        write_report,
    )  # imports Altair: see dballoc.report.write_report_outputs

    campaign = write_report.read_campaign(directory)
    terminal.print_answer(
        console, report_content.judge_campaign(campaign, preference, directory)[2]
    )


def print_published(console: Console, directory: Path, published: Published) -> None:
    """Print what became here of the post's collapse, and the frames of its profile beside ours;
    nothing for a post that has neither. UsageError if there is nothing to report.
    """
    from dballoc.report import write_report  # imports Altair, as do sections
    from dballoc.report.sections import published_frames

    campaign = write_report.read_campaign(directory)
    profiles = load_contention(directory, campaign)
    if campaign.imported:
        # Of several machines the first stands here, as in the answer.
        machine = split_by_machine(campaign)[0]
        imported = load_imported_profiles(directory, campaign)
        level = published.frames.threads if published.frames else None
        profiles = imported.of_machine(machine.name, level) if imported else None
        campaign = machine.campaign
    if collapse := describe_collapse(find_collapses_here(campaign, published)):
        console.print("", Text(collapse), sep="\n")
    if published.frames is None:
        return
    measured = published_frames.measure_published_frames(published.frames, profiles)
    shown = published_frames.tabulate_frames(published.frames, measured)
    console.print()
    terminal.print_table(console, _narrow_frames(shown))
    order = published_frames.describe_frame_order(published.frames, measured)
    for line in (*order, f"Per cent. {shown.caption}"):
        console.print(Text(line, style="dim"))


def _narrow_frames(frames: Table) -> Table:
    """Return the table of frames in 80 columns: without the files of the post's functions, without
    the unit, and without what stands for them here, which the report has.
    """
    return replace(
        frames,
        columns=[heading.removesuffix(": published") for heading in frames.columns[:-1]],
        rows=[
            [frame.rpartition("!")[2], *(share.removesuffix(" %") for share in shares[:-1])]
            for frame, *shares in frames.rows
        ],
        caption="",
    )


def print_tune(console: Console, directory: Path) -> None:
    """Print what ``dballoc tune`` has found. UsageError if there is nothing to report."""
    from dballoc.analysis.tune.tuned import load_tuned
    from dballoc.report.tune.tune_answer import answer_tune

    terminal.print_answer(console, answer_tune(load_tuned(directory)))


def print_fit(console: Console, directory: Path) -> None:
    """Print what ``dballoc fit`` has found. UsageError if there is nothing to report."""
    from dballoc.analysis.tables.largest_cache import load_fits
    from dballoc.report import fit_report  # imports Altair: see dballoc.report.write_report_outputs

    fits = load_fits(directory)
    sizes = fit_report.tabulate_sizes(fits)
    # What fits beside each other; the report has the rest.
    narrow = replace(sizes.drop_columns("RSS seen at the kill, MiB", "transactions/s"), caption="")
    answer = replace(fit_report.answer_fit(fits), table=narrow, variants=[])
    terminal.print_answer(console, answer)
