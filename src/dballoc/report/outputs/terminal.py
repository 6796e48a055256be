"""The answer on the terminal: a few sentences and one small table."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dballoc.analysis.decisions.recommendation_rule import MEMORY, Preference
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, Metric
from dballoc.report.wording.answer import MANY, ratio_words, verdict_words


def print_answer(console: Console, directory: Path, preference: Preference = MEMORY) -> None:
    """Print the answer of a results directory. UsageError if there is nothing to report."""
    from dballoc.report import (
        report_content,
        write_report,
    )  # imports Altair: see dballoc.report.write

    campaign = write_report.read(directory)
    comparisons, _, said = report_content.judge(campaign, preference)
    console.print(Text(said.headline, style="bold"))
    console.print(Text(said.reason))
    if campaign.imported:
        console.print(
            "",
            Text(said.against, style="bold"),
            *(Text(f"  {x.name}: {x.text}") for x in said.variants),
            "",
            sep="\n",
        )
        for note in said.notes:
            console.print(Text(f"· {note}", style="dim"))
        return
    width = 2 + max(
        len(name)
        for name in [_itself(comparisons.floor[0]), *(c.variant for c in comparisons.family)]
    )
    shown = comparisons.metrics if comparisons.family else []
    if len({m.workload for m in shown if m.workload}) > MANY:
        # Of many workloads a line for each variant; the table of all is in the report.
        for line in [*said.variants, *([said.floor] if said.floor else [])]:
            console.print("", Text(line.name, style="bold"), Text(f"  {line.text}"), sep="\n")
        shown = [m for m in shown if m.workload is None]
    for metric in shown:
        title = f"{metric.title} ÷ {comparisons.floor[0].variant}'s (better: {metric.better})"
        console.print("", Text(title, style="bold"), _metric(comparisons, metric, width), sep="\n")
    console.print()
    for note in said.notes:
        console.print(Text(f"· {note}", style="dim"))


def print_fit(console: Console, directory: Path) -> None:
    """Print what ``dballoc fit`` has found. UsageError if there is nothing to report."""
    from dballoc.analysis.tables.largest_cache import load
    from dballoc.report import fit_report  # imports Altair: see dballoc.report.write

    found = load(directory)
    said, shown = fit_report.answer(found), fit_report.sizes(found)
    console.print(Text(said.headline, style="bold"))
    console.print(Text(said.reason))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    # What fits beside each other; the report has the rest.
    kept = [
        i
        for i, column in enumerate(shown.columns)
        if column not in ("RSS seen at the kill, MiB", "transactions/s")
    ]
    for i in kept:
        table.add_column(shown.columns[i], no_wrap=i == 0)
    for row in shown.rows:
        table.add_row(*(Text(row[i]) for i in kept))
    console.print("", table, "", sep="\n")
    for note in said.notes:
        console.print(Text(f"· {note}", style="dim"))


def _metric(comparisons: Comparisons, metric: Metric, width: int) -> Table:
    """Every variant in one metric, and the A/A floor. ``width``: of the longest name."""
    floor = next(c for c in comparisons.floor if c.metric == metric)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=width)
    table.add_column(no_wrap=True)
    table.add_column()
    for c in (c for c in comparisons.family if c.metric == metric):
        table.add_row(
            Text(f"  {c.variant}"), Text(ratio_words(c)), Text(verdict_words(c, comparisons))
        )
    table.add_row(
        Text(f"  {_itself(floor)}"), Text(ratio_words(floor)), Text("A/A floor"), style="dim"
    )
    return table


def _itself(floor: Comparison) -> str:
    return f"{floor.variant}, A2 ÷ A1"
