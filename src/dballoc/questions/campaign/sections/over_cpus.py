"""The section on how throughput grows with the CPUs of the server."""

import polars as pl

from dballoc.document.model import Column, Figure, Section, Table, tabulate
from dballoc.ground.numbers import NOTHING, count, listing, number, percent
from dballoc.questions.campaign.charts import levels
from dballoc.questions.campaign.figures import level_curves, over_cpus
from dballoc.questions.campaign.figures.over_cpus import ScaledThroughput
from dballoc.questions.campaign.figures.side_cpus import has_own_cpus
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.ratios_as_text import describe_ratio, format_ratio, show_ratio
from dballoc.questions.statistics.ratio_interval import Ratio


def make_cpus_section(campaign: Campaign, *, drawn: bool = True) -> Section | None:
    """Return the section; None unless solo trials had several numbers of CPUs. ``drawn``: with its
    charts.
    """
    rows = over_cpus.compute_scaling(campaign)
    if not rows:
        return None
    return Section(
        key="cpus",
        title="How throughput grows with CPUs",
        text=_describe_clients(campaign),
        figures=_draw_over_cpus(campaign) if drawn else [],
        tables=[_tabulate_scaling(campaign, rows, is_narrow=not drawn)],
    )


def _describe_clients(campaign: Campaign) -> list[str]:
    """Say on which numbers of CPUs the clients had cores of their own, if not on all or none."""
    apart: list[str] = []
    together: list[str] = []
    for cpus, names in over_cpus.group_by_cpus(campaign.experiment).items():
        is_apart = all(has_own_cpus(campaign, name) for name in names)
        (apart if is_apart else together).append(str(cpus))
    if not apart or not together:
        return []
    return [
        f"The clients had CPUs of their own where the server had {listing(apart)}, and were on the "
        f"server's where it had {listing(together)}: what they took there is missing from its "
        "growth."
    ]


def _draw_over_cpus(campaign: Campaign) -> list[Figure]:
    """Draw throughput against CPUs, at each number's best level and at the highest."""
    highest = campaign.experiment.threads[-1]
    return [
        levels.draw_cpu_curve(
            over_cpus.average_throughput(campaign, level), workload, title, f"cpus-{key}"
        )
        for workload in campaign.experiment.workloads
        for level, title, key in (
            (over_cpus.BEST, "Throughput against CPUs, at the best level", "best"),
            (highest, f"Throughput against CPUs, with {count(highest, 'client')}", "highest"),
        )
    ]


def _tabulate_scaling(
    campaign: Campaign, rows: list[ScaledThroughput], *, is_narrow: bool
) -> Table:
    """Return the table; ``is_narrow``: without intervals, for 80 columns."""
    top, several = max(campaign.experiment.threads), len(campaign.experiment.workloads) > 1
    fewest = count(min(row.cpus for row in rows), "CPU")

    def show(ratio: Ratio | None) -> str:
        if ratio is None:
            return NOTHING
        return format_ratio(ratio.estimate) if is_narrow else show_ratio(ratio)

    columns = (
        *([Column("workload")] if several else []),
        Column("malloc", "line"),
        Column("CPUs", "cpus"),
        Column("at best, per second", lambda row: row.shape.peak, number),
        Column("clients then", lambda row: row.shape.peak_threads),
        Column(f"÷ {fewest}", lambda row: show(row.best)),
        Column(f"{top} clients ÷ {fewest}", lambda row: show(row.highest)),
        Column("collapse", _describe_collapse, words=True),
    )
    interval = "" if is_narrow else " with a plain 95 % interval and"
    caption = (
        f"Transactions; ratios block by block,{interval} without a verdict. A collapse: with so "
        "many clients only that share of the best with fewer, below "
        f"{percent(level_curves.COLLAPSE_SHARE, 0)}."
    )
    title = f"Throughput ÷ that on {fewest}"
    return tabulate(title, columns, rows, caption=caption, heads=2 if several else 1)


def _describe_collapse(row: ScaledThroughput) -> str:
    shape = row.shape
    if shape.collapse_threads is None or shape.collapse_share is None:
        return "none"
    return f"at {shape.collapse_threads}: {percent(shape.collapse_share, 0)}"


def tabulate_cpus(campaign: Campaign) -> pl.DataFrame:
    """Return the same as a table for csv/."""
    return pl.DataFrame(
        [
            {
                "workload": row.workload,
                "malloc": row.line,
                "cpus": row.cpus,
                "best_tps": row.shape.peak,
                "best_threads": row.shape.peak_threads,
                **{f"best_{k}": v for k, v in describe_ratio(row.best).items()},
                **{f"highest_{k}": v for k, v in describe_ratio(row.highest).items()},
                "collapse_threads": row.shape.collapse_threads,
                "collapse_share": row.shape.collapse_share,
            }
            for row in over_cpus.compute_scaling(campaign)
        ],
        infer_schema_length=None,
    )
