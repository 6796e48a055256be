"""Report imported results that have one level: a row a workload, as comparisons of microbenchmarks
are published.
"""

from collections.abc import Callable, Iterable

import polars as pl

from dballoc.document.charts import Variants
from dballoc.document.model import Column, Figure, Table, VariantLine, tabulate
from dballoc.ground.numbers import mebibytes, number
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.campaign.sections import workload_groups
from dballoc.questions.campaign.sections.tables import Cells, index_cells, spread
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import MEASURES, OF_LEVEL
from dballoc.questions.compare.ratios_as_text import format_mean, format_ratio
from dballoc.questions.imported.figures import is_of_ratios, list_private_bytes

# Measures other than throughput that imported files have.
_OTHER_MEASURES = [
    m for m in OF_LEVEL.values() if m.change and m.group != "cpu" and m.name != "qps"
]

_PRIVATE = (
    "What Windows has committed for the process alone, in memory or not; the most of its readings."
)


def has_one_level(campaign: Campaign) -> bool:
    """Whether everything was measured under one number of clients."""
    return len(campaign.experiment.threads) == 1


def describe_ratio_ranges(campaign: Campaign) -> list[VariantLine]:
    """Return each variant's least and highest ratio to the baseline over the workloads."""
    cells = workload_groups.collect_cells(campaign)
    lines = []
    for name in campaign.names[1:]:
        ratios = {w: figures[0] for (w, _, variant), figures in cells.items() if variant == name}
        if not ratios:
            continue
        ends = sorted({min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)})
        ends.sort(key=ratios.__getitem__)
        words = [f"{format_ratio(ratios[w])} ({w})" for w in ends]
        lines.append(VariantLine(name, " to ".join(words)))
    return lines


def describe_kind(campaign: Campaign) -> list[str]:
    """Return what the files' figures are of, where they are no ordinary ones."""
    text = []
    if is_of_ratios(campaign):
        text.append(
            f"The files have ratios of throughput to {campaign.experiment.baseline}'s, not "
            "throughput itself; a ratio of two of them is only as exact as they are."
        )
    assert campaign.facts.imported
    if not campaign.facts.imported.clients_stated:
        text.append("The files do not say under how many clients they were measured.")
    return text


def draw_charts(campaign: Campaign, variants: Variants) -> list[Figure]:
    """Draw the ratios of all workloads, where few workloads leave the report without that chart."""
    cells = workload_groups.collect_cells(campaign)
    if workload_groups.has_many_workloads(campaign) or not cells:
        return []
    [threads] = campaign.experiment.threads
    return [workload_groups.draw_relative_qps(campaign, cells, threads, variants)]


def tabulate_measures(campaign: Campaign) -> list[Table]:
    """Return a table a measure, workloads × variants: throughput, then what else the files have.
    The ratios of many workloads are in a section of their own.
    """
    summary = level_curves.average_levels(campaign)
    shown = _tabulate_throughput(campaign, summary)
    for measure in _OTHER_MEASURES:
        form = mebibytes if measure.shown_in else number
        rows = summary.filter(measure=measure.levels)
        shown += _tabulate_values(campaign, measure.heading.removeprefix("peak "), rows, form)
    private = list_private_bytes(campaign).group_by("threads", "variant", "workload")
    most = private.agg(mean=pl.col("private").mean(), low=None, high=None)
    shown += _tabulate_values(campaign, "Private bytes, MiB", most, mebibytes, _PRIVATE)
    return shown


def _tabulate_throughput(campaign: Campaign, summary: pl.DataFrame) -> list[Table]:
    measure = MEASURES[level_curves.choose_throughput(summary)]
    baseline, *others = campaign.names
    clients = campaign.describe_clients(campaign.experiment.threads[0])
    title, columns = f"Throughput ÷ {baseline}'s, by workload", []
    if not is_of_ratios(campaign):
        title = f"{measure.label.capitalize()} by workload"
        means = index_cells(summary, "mean", measure=measure.levels)
        columns = _list_columns(campaign, means, campaign.names, spread(format_mean))
    if not workload_groups.has_many_workloads(campaign):
        cells = index_cells(level_curves.compute_relative_levels(campaign, measure.levels))
        heading = "{} ÷ " + baseline if columns else "{}"
        columns += _list_columns(campaign, cells, others, spread(format_ratio), heading)
    if not columns:
        return []
    heads = [Column("workload", str)]
    caption = f"With {clients}."
    return [tabulate(title, [*heads, *columns], campaign.experiment.workloads, caption=caption)]


def _tabulate_values(
    campaign: Campaign,
    title: str,
    rows: pl.DataFrame,
    form: Callable[[float], str],
    caption: str = "",
) -> list[Table]:
    """Return a measure's table; none if the files do not have it."""
    cells = index_cells(rows, "mean")
    if not cells:
        return []
    columns = _list_columns(campaign, cells, campaign.names, lambda figures: form(figures[0]))
    workloads = campaign.experiment.workloads
    return [
        tabulate(
            f"{title}, by workload", [Column("workload", str), *columns], workloads, caption=caption
        )
    ]


def _list_columns(
    campaign: Campaign,
    cells: Cells,
    names: Iterable[str],
    form: Callable[..., str],
    heading: str = "{}",
) -> list[Column]:
    """Return a column a variant; the rows are workloads."""
    [threads] = campaign.experiment.threads

    def select(name: str) -> Callable[[str], object]:
        return lambda workload: cells.get((workload, threads, name))

    return [Column(heading.replace("{}", name), select(name), form) for name in names]
