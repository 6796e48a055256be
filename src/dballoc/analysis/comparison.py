"""Every variant against the baseline in the primary metrics, and the A/A floor beside them."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign import Campaign
from dballoc.analysis.procedure import Procedure, declare
from dballoc.analysis.ratio import Ratio, logs_between_baselines, logs_to_baseline, ratio
from dballoc.analysis.verdict import Verdict, judge


@dataclass(frozen=True)
class Metric:
    """A primary metric. ``workload`` is None for one of the whole trial; ``better`` is "higher" or "lower"."""

    key: str
    title: str
    unit: str
    better: str
    workload: str | None = None


@dataclass(frozen=True)
class Comparison:
    """A variant against the baseline in one metric. ``ratio`` is None when not one block has both."""

    variant: str
    metric: Metric
    ratio: Ratio | None

    @property
    def verdict(self) -> Verdict:
        """Undecided without a ratio."""
        return judge(self.ratio) if self.ratio else Verdict.UNDECIDED


@dataclass(frozen=True)
class Comparisons:
    """The declared family, and the baseline against itself. In a campaign with faults of a variant its
    comparisons are computed from the blocks that it survived, and it is in ``faulty``: no verdict for it.
    """

    procedure: Procedure
    metrics: list[Metric]
    family: list[Comparison]
    floor: list[Comparison]
    faulty: dict[str, tuple[int, int]]

    def find(self, variant: str, metric: Metric) -> Comparison:
        """The one of that variant and metric; KeyError if there is none."""
        for comparison in self.family:
            if comparison.variant == variant and comparison.metric == metric:
                return comparison
        raise KeyError(variant, metric.key)


def metrics(campaign: Campaign) -> list[Metric]:
    """The primary metrics of the solo design: throughput at the highest level, peak and idle RSS."""
    top = max(campaign.experiment.threads)
    unit = "client" if top == 1 else "clients"
    speed = [
        Metric(f"tps:{w}", f"{w}, transactions per second at {top} {unit}", "1/s", "higher", w)
        for w in campaign.experiment.workloads
    ]
    memory = [Metric("rss_peak", "peak RSS", "bytes", "lower")]
    if campaign.experiment.time.idle:
        memory.append(Metric("rss_idle", "idle RSS after the load", "bytes", "lower"))
    return [*speed, *memory]


def compare(campaign: Campaign) -> Comparisons:
    """Judge the campaign by its declared procedure."""
    procedure = declare(int(campaign.facts["planned_blocks"]), len(campaign.names), len(campaign.experiment.workloads))
    chosen = metrics(campaign)
    family, floor = [], []
    baseline = campaign.experiment.baseline
    for metric in chosen:
        values = _values(campaign, metric)
        floor.append(_one(baseline, metric, values.filter(pl.col("role") != "V"), logs_between_baselines, procedure))
        for name in campaign.names[1:]:
            mine = values.filter((pl.col("role") != "V") | (pl.col("variant") == name))
            family.append(_one(name, metric, mine, logs_to_baseline, procedure))
    return Comparisons(procedure, chosen, family, floor, faults(campaign))


def faults(campaign: Campaign) -> dict[str, tuple[int, int]]:
    """Per variant with faults: (trials with a fault, trials), repeated blocks included: a crash is not noise."""
    counts = campaign.trial.group_by("variant").agg((pl.col("outcome") == "fault").sum().alias("k"), pl.len())
    return {name: (k, n) for name, k, n in counts.iter_rows() if k}


def _one(
    variant: str, metric: Metric, values: pl.DataFrame, logs: Callable[[dict[tuple[int, str], float]], list[float]],
    procedure: Procedure,
) -> Comparison:  # fmt: skip
    by_place = {(block, role): value for block, role, value in values.select("block", "role", "value").iter_rows()}
    found = logs(by_place)
    return Comparison(variant, metric, ratio(found, procedure.confidence) if found else None)


def _values(campaign: Campaign, metric: Metric) -> pl.DataFrame:
    """(block, variant, role, value): one row a trial, or with fresh levels one for all its levels together."""
    if metric.workload is not None:
        top = max(campaign.experiment.threads)
        steps = campaign.of(campaign.step).filter(
            (pl.col("kind") == "level") & (pl.col("workload") == metric.workload) & (pl.col("threads") == top)
        )
        return steps.select("block", "variant", "role", pl.col("tps").alias("value")).drop_nulls("value")
    # With a start for each level, the highest peak of the starts, and the idle RSS after the highest level.
    rows = campaign.good.drop_nulls(metric.key)
    if metric.key == "rss_idle" and campaign.experiment.levels == "fresh":
        rows = rows.filter(pl.col("level") == max(campaign.experiment.threads))
    return rows.group_by("block", "variant", "role").agg(pl.col(metric.key).max().alias("value"))
