"""Compare every variant with the baseline in the primary metrics, and the baseline with itself (the
A/A floor).
"""

import json
from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.sequential_test import (
    Procedure,
    count_comparisons,
    declare_procedure,
)
from dballoc.analysis.decisions.verdict import Verdict, judge_interval
from dballoc.analysis.statistics import duet_slices
from dballoc.analysis.statistics.ratio_interval import (
    Ratio,
    compute_logs_between_baselines,
    compute_logs_to_baseline,
    compute_ratio,
)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A primary metric of a ``design``. ``workload`` is None for a metric of the whole trial;
    ``better``: "higher" or "lower".
    """

    key: str
    title: str
    unit: str
    better: str
    workload: str | None = None
    design: str = "solo"


@dataclass(frozen=True)
class Comparison:
    """A variant against the baseline in one metric. ``ratio`` is None when no block has both."""

    variant: str
    metric: Metric
    ratio: Ratio | None

    @property
    def verdict(self) -> Verdict:
        """The verdict by the interval; undecided without a ratio."""
        return judge_interval(self.ratio) if self.ratio else Verdict.UNDECIDED


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """The declared ``family``, the baseline against itself (``floor``), and the procedure of each
    design. A variant with faults is compared in the blocks that it survived; it is in ``faulty``,
    and there is no verdict for it.
    """

    procedures: dict[str, Procedure]
    metrics: list[Metric]
    family: list[Comparison]
    floor: list[Comparison]
    faulty: dict[str, tuple[int, int]]

    def confidence(self, metric: Metric) -> float:
        """Return the level of a metric's intervals."""
        return self.procedures[metric.design].confidence

    def find(self, variant: str, metric: Metric) -> Comparison:
        """Return the comparison of that variant in that metric; KeyError if there is none."""
        for comparison in self.family:
            if comparison.variant == variant and comparison.metric == metric:
                return comparison
        raise KeyError(variant, metric.key)


def list_metrics(campaign: Campaign) -> list[Metric]:
    """Return the primary metrics: solo throughput at the highest level, peak and idle RSS; duet CPU
    per transaction.
    """
    duet = [
        Metric(
            key=f"cpu:{w}",
            title=f"{w}, server CPU per transaction at half width",
            unit="µs",
            better="lower",
            workload=w,
            design="duet",
        )
        for w in campaign.experiment.workloads
        if "duet" in campaign.designs
    ]
    return [*duet, *(_list_solo_metrics(campaign) if "solo" in campaign.designs else [])]


def _list_solo_metrics(campaign: Campaign) -> list[Metric]:
    speed = []
    for w in campaign.experiment.workloads:
        top = find_top_level(campaign, w)
        unit = "client" if top == 1 else "clients"
        speed.append(
            Metric(
                key=f"tps:{w}",
                title=f"{w}, transactions per second at {top} {unit}",
                unit="1/s",
                better="higher",
                workload=w,
            )
        )
    if campaign.imported and not campaign.good["rss_peak"].is_not_null().any():
        return speed
    memory = [Metric(key="rss_peak", title="peak RSS", unit="bytes", better="lower")]
    if campaign.experiment.time.idle:
        memory.append(
            Metric(key="rss_idle", title="idle RSS after the load", unit="bytes", better="lower")
        )
    return [*speed, *memory]


def find_top_level(campaign: Campaign, workload: str) -> int:
    """Return the level at which a workload is judged: the highest of the experiment or, for
    imported results, of the workload.
    """
    if not campaign.imported:
        return max(campaign.experiment.threads)
    levels = campaign.step.filter(pl.col("workload") == workload)["threads"].to_list()
    return max(levels, default=max(campaign.experiment.threads))


def declare_procedures(campaign: Campaign) -> dict[str, Procedure]:
    """Return the procedure that was declared for each design at the start, after the blocks
    finished so far.
    """
    planned = json.loads(campaign.facts["planned_blocks"])
    family = count_comparisons(
        campaign.designs, len(campaign.names), len(campaign.experiment.workloads)
    )
    if campaign.imported:
        family = max(1, len(campaign.names) - 1) * len(_list_solo_metrics(campaign))
    return {
        design: declare_procedure(planned[design], family).after(campaign.blocks(design))
        for design in campaign.designs
    }


def compare_with_baseline(campaign: Campaign) -> Comparisons:
    """Compare the campaign's variants by its declared procedure."""
    declared = declare_procedures(campaign)
    chosen = list_metrics(campaign)
    family: list[Comparison] = []
    floor: list[Comparison] = []
    for metric in chosen:
        logs = (
            collect_duet_logs(campaign, metric)
            if metric.design == "duet"
            else _collect_solo_logs(campaign, metric)
        )
        confidence = declared[metric.design].confidence
        for name in campaign.names:
            block_logs = logs.get(name, [])
            comparison = Comparison(
                name, metric, compute_ratio(block_logs, confidence) if block_logs else None
            )
            (floor if name == campaign.experiment.baseline else family).append(comparison)
    return Comparisons(
        procedures=declared,
        metrics=chosen,
        family=family,
        floor=floor,
        faulty=count_faults(campaign),
    )


def collect_duet_logs(campaign: Campaign, metric: Metric) -> dict[str, list[float]]:
    """Return the blocks' ln ratios by variant; the baseline's are those of the A/A pair."""
    rows = duet_slices.compute_block_logs(campaign, workload=metric.workload)
    return {
        name: rows.filter(pl.col("variant") == name)["log"].to_list() for name in campaign.names
    }


def _collect_solo_logs(campaign: Campaign, metric: Metric) -> dict[str, list[float]]:
    values = _select_values(campaign, metric)
    logs = {}
    for name in campaign.names:
        rows = values.filter((pl.col("role") != "V") | (pl.col("variant") == name))
        by_place = {
            (block, role): value
            for block, role, value in rows.select("block", "role", "value").iter_rows()
        }
        if name == campaign.experiment.baseline:
            logs[name] = compute_logs_between_baselines(by_place)
        else:
            logs[name] = compute_logs_to_baseline(by_place, campaign.baseline_roles)
    return logs


def count_faults(campaign: Campaign) -> dict[str, tuple[int, int]]:
    """Return, for each variant with faults, (trials with a fault, trials). Repeated blocks are
    included: a crash is not noise.
    """
    counts = campaign.trials.group_by("variant").agg(
        (pl.col("outcome") == "fault").sum().alias("k"), pl.len()
    )
    return {name: (k, n) for name, k, n in counts.iter_rows() if k}


def _select_values(campaign: Campaign, metric: Metric) -> pl.DataFrame:
    """Return (block, variant, role, value): one row a trial or, with fresh levels, one for all its
    levels together.
    """
    if metric.workload is not None:
        top = find_top_level(campaign, metric.workload)
        steps = campaign.of(campaign.step).filter(
            (pl.col("kind") == "level")
            & (pl.col("workload") == metric.workload)
            & (pl.col("threads") == top)
        )
        return steps.select("block", "variant", "role", pl.col("tps").alias("value")).drop_nulls(
            "value"
        )
    # With a start for each level, the highest peak of the starts and the idle RSS after the highest
    # level count; with one for each workload, the highest of both.
    rows = campaign.good.drop_nulls(metric.key)
    if metric.key == "rss_idle" and campaign.experiment.levels == "fresh":
        rows = rows.filter(pl.col("level") == max(campaign.experiment.threads))
    return rows.group_by("block", "variant", "role").agg(pl.col(metric.key).max().alias("value"))
