"""What speed is: one metric for each workload, and which way is faster. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.analysis.comparison import Comparison, Metric
from dballoc.analysis.verdict import Verdict


@dataclass(frozen=True)
class Speed:
    """A variant's speed ÷ the baseline's, more is faster: throughput as it is, cost upside down."""

    estimate: float
    low: float
    high: float


def metrics(found: Sequence[Metric]) -> list[Metric]:
    """One a workload: the server's CPU per transaction where it was measured as a primary metric, for that is decided
    within less noise; throughput elsewhere.
    """
    chosen: dict[str, Metric] = {}
    for metric in found:
        if metric.workload is not None and (metric.workload not in chosen or metric.key.startswith("cpu:")):
            chosen[metric.workload] = metric
    return list(chosen.values())


def speed(comparison: Comparison) -> Speed | None:
    """None without a ratio; 0 and infinity where there is no interval."""
    r = comparison.ratio
    if r is None:
        return None
    if comparison.metric.better == "higher":
        return Speed(r.estimate, r.low, r.high)
    return Speed(1 / r.estimate, 1 / r.high if math.isfinite(r.high) else 0.0, 1 / r.low if r.low else math.inf)


def shown_faster(comparison: Comparison) -> bool:
    """Whether the interval lies on the faster side of 1."""
    return comparison.verdict is (Verdict.HIGHER if comparison.metric.better == "higher" else Verdict.LOWER)


def shown_slower(comparison: Comparison, margin: float = 0.0) -> bool:
    """Whether the interval lies on the slower side of 1, and beyond it by more than ``margin``."""
    if comparison.ratio is None:
        return False
    return comparison.ratio.high < 1 - margin if comparison.metric.better == "higher" else comparison.ratio.low > 1 + margin
