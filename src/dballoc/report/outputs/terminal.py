"""The answer on the terminal: a sentence or two and one small table."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference
from dballoc.report.wording.answer import Answer, AnswerTable


def print_answer(console: Console, directory: Path, preference: Preference = LEAST_MEMORY) -> None:
    """Print the answer of a results directory. UsageError if there is nothing to report."""
    from dballoc.report import (
        report_content,
        write_report,
    )  # imports Altair: see dballoc.report.write_report_outputs

    campaign = write_report.read_campaign(directory)
    _print_parts(console, report_content.judge_campaign(campaign, preference, directory)[2])


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
