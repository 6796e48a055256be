"""The answer on the terminal: a few sentences and one small table."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, Metric
from dballoc.report.wording.answer import MANY, describe_verdict, format_comparison


def print_answer(console: Console, directory: Path, preference: Preference = LEAST_MEMORY) -> None:
    """Print the answer of a results directory. UsageError if there is nothing to report."""
    from dballoc.report import (
        report_content,
        write_report,
    )  # imports Altair: see dballoc.report.write_report_outputs

    campaign = write_report.read_campaign(directory)
    comparisons, _, answer = report_content.judge_campaign(campaign, preference)
    console.print(Text(answer.headline, style="bold"))
    console.print(Text(answer.reason))
    if campaign.imported:
        console.print(
            "",
            Text(answer.against, style="bold"),
            *(Text(f"  {x.name}: {x.text}") for x in answer.variants),
            "",
            sep="\n",
        )
        for note in answer.notes:
            console.print(Text(f"· {note}", style="dim"))
        return
    width = 2 + max(
        len(name)
        for name in [_name_floor(comparisons.floor[0]), *(c.variant for c in comparisons.family)]
    )
    shown = comparisons.metrics if comparisons.family else []
    if len({m.workload for m in shown if m.workload}) > MANY:
        # Of many workloads a line for each variant; the table of all is in the report.
        for line in [*answer.variants, *([answer.floor] if answer.floor else [])]:
            console.print("", Text(line.name, style="bold"), Text(f"  {line.text}"), sep="\n")
        shown = [m for m in shown if m.workload is None]
    for metric in shown:
        title = f"{metric.title} ÷ {comparisons.floor[0].variant}'s (better: {metric.better})"
        console.print(
            "", Text(title, style="bold"), _tabulate_metric(comparisons, metric, width), sep="\n"
        )
    console.print()
    for note in answer.notes:
        console.print(Text(f"· {note}", style="dim"))


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
    for note in answer.notes:
        console.print(Text(f"· {note}", style="dim"))


def _tabulate_metric(comparisons: Comparisons, metric: Metric, width: int) -> Table:
    """Return every variant in one metric, and the A/A floor. ``width``: of the longest name."""
    floor = next(c for c in comparisons.floor if c.metric == metric)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=width)
    table.add_column(no_wrap=True)
    table.add_column()
    for c in (c for c in comparisons.family if c.metric == metric):
        table.add_row(
            Text(f"  {c.variant}"),
            Text(format_comparison(c)),
            Text(describe_verdict(c, comparisons)),
        )
    table.add_row(
        Text(f"  {_name_floor(floor)}"),
        Text(format_comparison(floor)),
        Text("A/A floor"),
        style="dim",
    )
    return table


def _name_floor(floor: Comparison) -> str:
    return f"{floor.variant}, A2 ÷ A1"
