"""Compute what every level showed: throughput, latency, CPU and switches per operation, ratios to
the baseline and of all pairs; where throughput peaks and collapses. Descriptive, outside the
declared family.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.ground.distributions import compute_t_quantile
from dballoc.ground.numbers import listing, percent
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import CPU, OF_LEVEL, PEAK, THROUGHPUT, Metric
from dballoc.questions.compare.values import compare, read_values, subtract_blocks
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE, compute_ratio

# Throughput below this share of the best at a lower level is a collapse.
COLLAPSE_SHARE = 0.6


@dataclass(frozen=True)
class ThroughputCurve:
    """A variant's curve over levels. ``collapse_threads``: the first collapsed level,
    ``collapse_share``: its share of the best level before it; None where nothing collapses.
    """

    peak_threads: int
    peak: float
    collapse_threads: int | None
    collapse_share: float | None


def find_peak_and_collapse(throughput: Mapping[int, float]) -> ThroughputCurve:
    """Find peak and collapse in throughput by threads. Raises ValueError when it is empty."""
    if not throughput:
        raise ValueError("no level")
    levels = sorted(throughput)
    best = max(levels, key=lambda n: throughput[n])
    so_far = 0.0
    for threads in levels:
        if so_far and throughput[threads] < COLLAPSE_SHARE * so_far:
            return ThroughputCurve(best, throughput[best], threads, throughput[threads] / so_far)
        so_far = max(so_far, throughput[threads])
    return ThroughputCurve(best, throughput[best], None, None)


def find_collapse(throughput: Mapping[int, float]) -> tuple[int, int] | None:
    """Return the level before a collapse and the first collapsed level; None where there is no
    collapse. Raises ValueError when there are no levels.
    """
    fell = find_peak_and_collapse(throughput).collapse_threads
    return None if fell is None else (max(n for n in throughput if n < fell), fell)


_PLACE = ("variant", "workload", "threads")


def average_levels(campaign: Campaign) -> pl.DataFrame:
    """Return one row a variant, workload, threads and measure: ``mean`` with a 95 % t interval over
    blocks (``low``, ``high``: null below two blocks), ``n`` blocks. The baseline's two runs of a
    block are averaged first.
    """
    rows = (
        campaign.levels.group_by("block", *_PLACE)
        .agg(pl.col(name).mean() for name in OF_LEVEL)
        .unpivot(list(OF_LEVEL), index=["block", *_PLACE], variable_name="measure")
        .drop_nulls("value")
        .group_by(*_PLACE, "measure", maintain_order=True)
        .agg(mean=pl.col("value").mean(), deviation=pl.col("value").std(), n=pl.len())
    )
    half = [
        compute_t_quantile(n - 1, (1 + DESCRIPTIVE_CONFIDENCE) / 2) * deviation / math.sqrt(n)
        if n > 1
        else None
        for deviation, n in rows.select("deviation", "n").iter_rows()
    ]
    rows = rows.with_columns(half=pl.Series(half, dtype=pl.Float64))
    order = {name: i for i, name in enumerate(campaign.names)}
    return (
        rows.with_columns(
            low=(pl.col("mean") - pl.col("half")).clip(0), high=pl.col("mean") + pl.col("half"),
            order=pl.col("variant").replace_strict(order, return_dtype=pl.Int64),
        )
        .sort("workload", "measure", "threads", "order")
        .drop("half", "deviation", "order")
    )  # fmt: skip


def compute_relative_levels(campaign: Campaign, name: str = "qps") -> pl.DataFrame:
    """Return one row a variant (not the baseline), workload and threads: ``ratio`` to the baseline
    with ``low``, ``high`` (95 %; null below two blocks) and ``n`` blocks. ``name``: of a measure in
    tables of levels.
    """
    schema = {
        "variant": pl.String,
        "workload": pl.String,
        "threads": pl.Int64,
        "ratio": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n": pl.Int64,
    }
    baseline, *others = campaign.names
    rows = []
    for workload in campaign.experiment.workloads:
        for threads in campaign.experiment.threads:
            metric = Metric(measure=OF_LEVEL[name], workload=workload, threads=threads)
            values = read_values(campaign, metric)
            for variant in others:
                if r := compare(values, variant, baseline):
                    rows.append((variant, workload, threads, *r.figures, r.blocks))
    return pl.DataFrame(rows, schema=schema, orient="row")


@dataclass(frozen=True, kw_only=True)
class Collapse:
    """A variant's collapse in a workload: the level before it, the first of it, and its share of
    the best before.
    """

    variant: str
    workload: str
    before: int
    at: int
    share: float

    @property
    def words(self) -> str:
        """Return ``oltp_read_only between 512 and 1024 (11 % of the best before)``."""
        return (
            f"{self.workload} between {self.before} and {self.at} ({percent(self.share, 0)} of the "
            "best before)"
        )


def choose_throughput(summary: pl.DataFrame) -> str:
    """Return the measure of throughput in rows of :func:`average_levels`: transactions, or queries
    if these are imported figures without transactions.
    """
    measures = set(summary["measure"])
    return "qps" if "qps" in measures and "tps" not in measures else "tps"


def read_curves(campaign: Campaign) -> dict[tuple[str, str], dict[int, float]]:
    """Return mean throughput by level, of each workload and variant."""
    curves: dict[tuple[str, str], dict[int, float]] = {}
    summary = average_levels(campaign)
    rows = summary.filter(measure=choose_throughput(summary))
    for *place, threads, mean in rows.select("workload", "variant", "threads", "mean").iter_rows():
        curves.setdefault((place[0], place[1]), {})[threads] = mean
    return curves


def find_collapses(campaign: Campaign) -> list[Collapse]:
    """Return every collapse, in the experiment's order."""
    curves = read_curves(campaign)
    fallen = []
    for name, workload in product(campaign.names, campaign.experiment.workloads):
        if not (curve := curves.get((workload, name))):
            continue
        shape = find_peak_and_collapse(curve)
        if (at := shape.collapse_threads) is not None:
            fallen.append(
                Collapse(
                    variant=name,
                    workload=workload,
                    before=max(n for n in curve if n < at),
                    at=at,
                    share=shape.collapse_share or 0.0,
                )
            )
    return fallen


def describe_own_collapses(campaign: Campaign) -> dict[str, str]:
    """Return, for each variant whose throughput collapses where the baseline's does not, at the
    same level or below, where that is. Empty without solo trials, which alone rise over levels.
    """
    if Design.SOLO not in campaign.facts.designs:
        return {}
    baseline = campaign.experiment.baseline
    collapses = find_collapses(campaign)
    shared = {c.workload: c.at for c in collapses if c.variant == baseline}
    places: dict[str, list[str]] = {}
    for collapse in collapses:
        if collapse.at < shared.get(collapse.workload, math.inf):
            places.setdefault(collapse.variant, []).append(collapse.words)
    return {name: listing(words) for name, words in places.items()}


_PAIRS = {
    "first": pl.String,
    "second": pl.String,
    "measure": pl.String,
    "workload": pl.String,
    "ratio": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}


def compare_all_pairs(campaign: Campaign) -> pl.DataFrame:
    """Return one row a pair of variants and measure: ``first`` ÷ ``second`` as ``ratio`` with
    ``low``, ``high`` (95 %; null below two blocks) and ``n`` blocks. The solo design has peak RSS
    (workload null) and throughput at the highest level of each ``workload``, with the baseline's
    two runs of a block averaged first. The duet has CPU per transaction, where two variants are
    compared through the baseline that ran beside each. Replays have peak heap and CPU per event.
    """
    rows = []
    for metric in _list_paired_metrics(campaign):
        values = read_values(campaign, metric)
        for first, second in combinations(campaign.names, 2):
            logs = subtract_blocks(values.average_blocks(first), values.average_blocks(second))
            if logs:
                r = compute_ratio(list(logs.values()))
                place = (first, second, metric.measure.name, metric.workload)
                rows.append((*place, *r.figures, r.blocks))
    return pl.DataFrame(rows, schema=_PAIRS, orient="row")


def _list_paired_metrics(campaign: Campaign) -> list[Metric]:
    workloads, top = campaign.experiment.workloads, max(campaign.experiment.threads)
    speed = CPU if campaign.is_replay else THROUGHPUT
    metrics = []
    if Design.SOLO in campaign.facts.designs:
        metrics = [Metric(measure=PEAK)]
        metrics += [Metric(measure=speed, workload=w, threads=top) for w in workloads]
    if Design.DUET in campaign.facts.designs:
        metrics += [Metric(measure=CPU, workload=w, design=Design.DUET) for w in workloads]
    return metrics
