"""Ratios with a chosen interval."""

import math
from dataclasses import replace

from dballoc.questions.compare.measures import Metric, list_measures
from dballoc.questions.statistics.ratio_interval import Interval, Ratio


def make_ratio(
    low: float,
    high: float,
    blocks: int = 6,
    confidence: float = 0.99,
    scatter: float = 0.02,
    estimate: float | None = None,
) -> Ratio:
    """Return a ratio with that interval around its estimate; without one below two blocks."""
    middle = math.sqrt(low * high) if estimate is None else estimate
    ratio = Ratio(estimate=middle, blocks=blocks, confidence=confidence)
    if blocks < 2:
        return ratio
    return replace(
        ratio,
        interval=Interval(low, high),
        error=scatter / math.sqrt(blocks),
        freedom=blocks - 1,
        scatter=scatter,
        own_scatter=scatter,
    )


def make_metric(key: str, threads: int | None = None, *, is_replay: bool = False) -> Metric:
    """Return the metric of that key, ``cpu:oltp``; CPU is that of the duet, or of the replay."""
    name, _, workload = key.partition(":")
    measure = list_measures(is_replay=is_replay)[name]
    return Metric(
        measure=measure, workload=workload or None, threads=threads, design=measure.designs[-1]
    )
