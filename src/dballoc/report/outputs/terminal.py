"""The answer on the terminal: a sentence or two and one small table."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference
from dballoc.analysis.published.collapse_seen import find_collapses_here
from dballoc.analysis.published.imported_machines import split_by_machine
from dballoc.analysis.published.published_figures import Published
from dballoc.analysis.tables.profiles.contention import load_contention
from dballoc.analysis.tables.profiles.imported_profiles import load_imported_profiles
from dballoc.report.wording.answer import Answer, AnswerTable
from dballoc.report.wording.published_collapse import describe_collapse

if TYPE_CHECKING:
    from dballoc.report.sections.tables import Table as FrameTable

# The width of a heading above numbers.
_NARROW = 9


def print_answer(console: Console, directory: Path, preference: Preference = LEAST_MEMORY) -> None:
    """Print the answer of a results directory. UsageError if there is nothing to report."""
    from dballoc.report import (
        report_content,
        write_report,
    )  # imports Altair: see dballoc.report.write_report_outputs

    campaign = write_report.read_campaign(directory)
    _print_parts(console, report_content.judge_campaign(campaign, preference, directory)[2])


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
    console.print("", Text(shown.title, style="bold"), _lay_out_frames(shown), sep="\n")
    order = published_frames.describe_frame_order(published.frames, measured)
    for line in (*order, f"Per cent. {shown.caption}"):
        console.print(Text(line, style="dim"))


def _lay_out_frames(shown: "FrameTable") -> Table:
    """Return the table of frames in 80 columns: without the files of the post's functions, without
    the unit, and without what stands for them here, which the report has.
    """
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column(shown.columns[0], no_wrap=True)
    for heading in shown.columns[1:-1]:
        words = wrap(heading.removesuffix(": published"), _NARROW)
        table.add_column("\n".join(words), justify="right", vertical="bottom")
    for frame, *shares in shown.rows:
        values = (share.removesuffix(" %") for share in shares[:-1])
        table.add_row(Text(frame.rpartition("!")[2]), *map(Text, values))
    return table


def _print_parts(console: Console, answer: Answer) -> None:
    """Print headline, reason, command, table and notes, as they stand on the page."""
    console.print(Text(answer.headline, style="bold"))
    console.print(Text(answer.reason))
    if answer.command:
        console.print(f"  {answer.command}", soft_wrap=True, highlight=False, markup=False)
    console.print()
    if answer.table:
        console.print(_lay_out(answer.table), Text(answer.table.caption, style="dim"), "", sep="\n")
    if answer.variants:
        console.print(
            Text(answer.against, style="bold"),
            *(Text(f"  {x.name}: {x.text}") for x in answer.variants),
            "",
            sep="\n",
        )
    _print_notes(console, answer)


def _print_notes(console: Console, answer: Answer) -> None:
    """Print in what the run differs from its post, each topic indented, then the other notes."""
    if answer.post:
        console.print(Text(f"· {answer.post.intro}", style="dim"))
        for topic in answer.post.topics:
            if len(topic.lines) == 1:
                _print_indented(console, 4, f"{topic.title}: {topic.lines[0]}")
                continue
            _print_indented(console, 4, f"{topic.title}:")
            for line in topic.lines:
                _print_indented(console, 6, line)
        if answer.post.silent:
            _print_indented(console, 4, answer.post.silent)
    for note in answer.notes:
        console.print(Text(f"· {note}", style="dim"))


def _print_indented(console: Console, columns: int, text: str) -> None:
    """Print a text so many columns from the left, on as many lines as it takes."""
    for line in Text(text, style="dim").wrap(console, max(20, console.width - columns)):
        line.rstrip()
        console.print(Text(" " * columns) + line)


def _lay_out(shown: AnswerTable) -> Table:
    """Return the table; the A/A floor is the last row, dimmed."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in shown.columns:
        table.add_column(column)
    for row in shown.rows:
        table.add_row(*map(Text, row))
    table.add_row(*map(Text, shown.floor), style="dim")
    return table


def print_tune(console: Console, directory: Path) -> None:
    """Print what ``dballoc tune`` has found. UsageError if there is nothing to report."""
    from dballoc.analysis.tune.tuned import load_tuned
    from dballoc.report.tune.tune_answer import answer_tune

    answer = answer_tune(load_tuned(directory))
    console.print(Text(answer.headline, style="bold"))
    console.print(Text(answer.reason))
    for line in answer.variants:
        console.print(Text(f"  {line.name}: {line.text}"))
    _print_notes(console, answer)


def print_fit(console: Console, directory: Path) -> None:
    """Print what ``dballoc fit`` has found. UsageError if there is nothing to report."""
    from dballoc.analysis.tables.largest_cache import load_fits
    from dballoc.report import fit_report  # imports Altair: see dballoc.report.write_report_outputs

    fits = load_fits(directory)
    answer, sizes = fit_report.answer_fit(fits), fit_report.tabulate_sizes(fits)
    console.print(Text(answer.headline, style="bold"))
    console.print(Text(answer.reason))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    # What fits beside each other; the report has the rest.
    shown_columns = [
        i
        for i, column in enumerate(sizes.columns)
        if column not in ("RSS seen at the kill, MiB", "transactions/s")
    ]
    for i in shown_columns:
        table.add_column(sizes.columns[i], no_wrap=i == 0)
    for row in sizes.rows:
        table.add_row(*(Text(row[i]) for i in shown_columns))
    console.print("", table, "", sep="\n")
    _print_notes(console, answer)
