"""Compute how throughput grows with CPUs: variants that differ in their CPUs alone are one line.
Descriptive, outside the declared family.
"""

from dataclasses import dataclass

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.questions.campaign.figures import level_curves, variant_lines
from dballoc.questions.campaign.figures.level_curves import ThroughputCurve
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import THROUGHPUT, Metric
from dballoc.questions.compare.values import read_values, subtract_blocks
from dballoc.questions.statistics.ratio_interval import Ratio, compute_ratio

BEST = "best"


def group_by_cpus(experiment: Experiment) -> dict[int, list[str]]:
    """Return the variants by their number of CPUs, lowest first; empty unless there are several
    numbers.
    """
    counts: dict[int, list[str]] = {}
    for variant in experiment.variant:
        if (count := experiment.cpu_of(variant).count) is not None:
            counts.setdefault(count, []).append(variant.name)
    return dict(sorted(counts.items())) if len(counts) > 1 else {}


def name_lines(experiment: Experiment) -> dict[str, str]:
    """Return the name of the line that each variant is on, for those with a number of CPUs."""
    counted = [v for v in experiment.variant if experiment.cpu_of(v).count is not None]
    return variant_lines.name_lines(
        experiment, counted, lambda variant: variant.describe_but_cpus()
    )


def average_throughput(campaign: Campaign, level: int | str) -> pl.DataFrame:
    """Return one row a line, workload and number of CPUs: ``variant`` (the line), ``cpus``,
    ``mean`` transactions per second with a 95 % t interval over blocks (``low``, ``high``: null
    below two blocks), ``n`` blocks, and ``threads``, the level. ``level``: a number of clients, or
    BEST for the level where that variant's mean is highest. Empty unless the variants have several
    numbers of CPUs.
    """
    experiment, lines = campaign.experiment, name_lines(campaign.experiment)
    cpus = {v: count for count, names in group_by_cpus(experiment).items() for v in names}
    rows = level_curves.average_levels(campaign).filter(
        pl.col("variant").is_in(list(cpus)), measure="tps"
    )
    if level == BEST:
        rows = rows.sort("mean", descending=True).unique(
            ["variant", "workload"], keep="first", maintain_order=True
        )
    else:
        rows = rows.filter(threads=level)
    order = {name: place for place, name in enumerate(campaign.names)}
    return (
        rows.with_columns(
            cpus=pl.col("variant").replace_strict(cpus, return_dtype=pl.Int64),
            place=pl.col("variant").replace_strict(order, return_dtype=pl.Int64),
            line=pl.col("variant").replace_strict(lines, return_dtype=pl.String),
        )
        .sort("workload", "place")
        .drop("variant", "place", "measure")
        .rename({"line": "variant"})
    )


@dataclass(frozen=True, kw_only=True)
class ScaledThroughput:
    """A line on a number of ``cpus``: its ``shape`` over levels; its throughput ÷ that on the
    fewest CPUs, ``best`` at the best level of each and ``highest`` with most clients. None on the
    fewest themselves, and where no block has both.
    """

    workload: str
    line: str
    cpus: int
    shape: ThroughputCurve
    best: Ratio | None
    highest: Ratio | None


def compute_scaling(campaign: Campaign) -> list[ScaledThroughput]:
    """Return a row a workload, line and number of CPUs, in the experiment's order of lines. Empty
    unless the solo design had variants with several numbers of CPUs.
    """
    counts = group_by_cpus(campaign.experiment)
    if not counts or Design.SOLO not in campaign.facts.designs:
        return []
    cpus = {name: count for count, names in counts.items() for name in names}
    members: dict[str, list[str]] = {}
    for name, line in name_lines(campaign.experiment).items():
        members.setdefault(line, []).append(name)
    curves, top = level_curves.read_curves(campaign), max(campaign.experiment.threads)
    rows = []
    for workload in campaign.experiment.workloads:
        for line, names in members.items():
            shapes = {
                name: level_curves.find_peak_and_collapse(curve)
                for name in sorted(names, key=lambda n: cpus[n])
                if (curve := curves.get((workload, name)))
            }
            fewest = next(iter(shapes), "")
            for name, shape in shapes.items():
                peaks = (shape.peak_threads, shapes[fewest].peak_threads)
                pair = (name, fewest)
                rows.append(
                    ScaledThroughput(
                        workload=workload,
                        line=line,
                        cpus=cpus[name],
                        shape=shape,
                        best=_compare(campaign, workload, pair, peaks),
                        highest=_compare(campaign, workload, pair, (top, top)),
                    )
                )
    return rows


def _compare(
    campaign: Campaign, workload: str, names: tuple[str, str], levels: tuple[int, int]
) -> Ratio | None:
    """Return the first variant's throughput at its level ÷ the second's at its own, by block."""
    if names[0] == names[1]:
        return None
    first, second = (
        read_values(
            campaign, Metric(measure=THROUGHPUT, workload=workload, threads=level)
        ).average_blocks(name)
        for name, level in zip(names, levels, strict=True)
    )
    logs = list(subtract_blocks(first, second).values())
    return compute_ratio(logs) if logs else None
