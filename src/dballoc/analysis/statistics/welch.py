"""Contrast two campaigns' blocks: Welch's interval for two unpaired samples of logarithms. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.analysis.statistics.detectable_difference import compute_detectable_by_error
from dballoc.analysis.statistics.ratio_interval import exp_clamped
from dballoc.distributions import compute_t_quantile


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """second ÷ first. ``low`` and ``high`` are 0 and infinity with fewer than two blocks in either
    campaign; ``blocks``: the number in each.
    """

    estimate: float
    low: float
    high: float
    blocks: tuple[int, int]
    confidence: float
    error: float
    freedom: float

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return min(self.blocks) > 1

    @property
    def detectable(self) -> float:
        """The smallest relative difference that as many blocks would show with 80 % power; infinite
        without an interval.
        """
        if not self.has_interval:
            return math.inf
        return compute_detectable_by_error(self.error, self.freedom, self.confidence)


def compute_contrast(
    first: Sequence[float], second: Sequence[float], confidence: float
) -> Contrast:
    """Compute exp(mean second − mean first) with Welch's *t* interval, from one logarithm per block
    of each campaign.

    Blocks of different campaigns ran at different times, so nothing pairs them. ValueError if a
    campaign has no block.
    """
    if not first or not second:
        raise ValueError("a campaign without a block")
    (n, first_mean, first_variance), (m, second_mean, second_variance) = (
        _compute_moments(first),
        _compute_moments(second),
    )
    difference = second_mean - first_mean
    if min(n, m) < 2:
        return Contrast(
            estimate=exp_clamped(difference),
            low=0.0,
            high=math.inf,
            blocks=(n, m),
            confidence=confidence,
            error=math.nan,
            freedom=math.nan,
        )
    first_square, second_square = first_variance / n, second_variance / m
    error = math.sqrt(first_square + second_square)
    # Without any scatter at all the degrees of freedom are 0 ÷ 0, and do not matter.
    freedom = (
        (first_square + second_square) ** 2
        / (first_square**2 / (n - 1) + second_square**2 / (m - 1))
        if error
        else float(n + m - 2)
    )
    half = compute_t_quantile(freedom, (1 + confidence) / 2) * error
    return Contrast(
        estimate=exp_clamped(difference),
        low=exp_clamped(difference - half),
        high=exp_clamped(difference + half),
        blocks=(n, m),
        confidence=confidence,
        error=error,
        freedom=freedom,
    )


def _compute_moments(values: Sequence[float]) -> tuple[int, float, float]:
    n = len(values)
    mean = math.fsum(values) / n
    return n, mean, math.fsum((v - mean) ** 2 for v in values) / (n - 1) if n > 1 else math.nan
