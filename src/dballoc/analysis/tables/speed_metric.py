"""What speed is: one metric for each workload, and which way is faster. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, Metric


@dataclass(frozen=True)
class Speed:
    """A variant's speed ÷ the baseline's, more is faster: throughput as it is, cost upside down."""

    estimate: float
    low: float
    high: float


def choose_speed_metrics(primary: Sequence[Metric]) -> list[Metric]:
    """One a workload: the server's CPU per transaction where it was measured as a primary metric,
    for that is decided within less noise; throughput elsewhere.
    """
    chosen: dict[str, Metric] = {}
    for metric in primary:
        if metric.workload is not None and (
            metric.workload not in chosen or metric.key.startswith("cpu:")
        ):
            chosen[metric.workload] = metric
    return list(chosen.values())


def of(comparisons: Comparisons, variant: str) -> list[Comparison]:
    """A variant's comparisons that tell its speed, one a workload: a variant may have been left out
    of the duet.
    """
    of_workloads = [
        c for c in comparisons.family if c.variant == variant and c.metric.workload is not None
    ]
    # The last of a workload stays: first those without figures, then throughput, then the CPU.
    order = sorted(
        of_workloads, key=lambda c: (c.ratio is not None, c.metric.key.startswith("cpu:"))
    )
    return list({c.metric.workload: c for c in order}.values())


def pictured(comparisons: Comparisons) -> list[Metric]:
    """The metrics that a picture of all variants takes: one a workload, and throughput too where
    the other lacks one.
    """
    used = dict.fromkeys(choose_speed_metrics(comparisons.metrics))
    used |= dict.fromkeys(
        c.metric
        for v in dict.fromkeys(c.variant for c in comparisons.family)
        for c in of(comparisons, v)
        if c.ratio
    )
    return list(used)


def speed(comparison: Comparison) -> Speed | None:
    """None without a ratio; 0 and infinity where there is no interval."""
    r = comparison.ratio
    if r is None:
        return None
    if comparison.metric.better == "higher":
        return Speed(r.estimate, r.low, r.high)
    return Speed(
        1 / r.estimate,
        1 / r.high if math.isfinite(r.high) else 0.0,
        1 / r.low if r.low else math.inf,
    )


def shown_faster(comparison: Comparison) -> bool:
    """Whether the interval lies on the faster side of 1."""
    return comparison.verdict is (
        Verdict.HIGHER if comparison.metric.better == "higher" else Verdict.LOWER
    )


def shown_slower(comparison: Comparison, margin: float = 0.0) -> bool:
    """Whether the interval lies on the slower side of 1, and beyond it by more than ``margin``."""
    if comparison.ratio is None:
        return False
    return (
        comparison.ratio.high < 1 - margin
        if comparison.metric.better == "higher"
        else comparison.ratio.low > 1 + margin
    )
