"""Compute what a number of blocks can resolve, and how many blocks it takes to resolve a
difference. Pure.

Everything follows from the scatter s of a metric: the standard deviation of ln(variant ÷ baseline)
from block to block.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dballoc.ground.distributions import (
    compute_chi_square_quantile,
    compute_noncentrality,
    compute_t_quantile,
    find_chi_square_quantile,
    find_t_quantile,
)

# The power of the smallest detectable difference.
POWER = 0.8

# The confidence level of the range of the scatter, and so of a number of blocks.
LEVEL = 0.9

# The share of campaigns whose intervals must be no wider than planned.
ASSURANCE = 0.9

# Nobody would wait for a campaign of more blocks.
MOST_BLOCKS = 10_000


@dataclass(frozen=True)
class Scatter:
    """A standard deviation of ln ratio, estimated with ``freedom`` degrees of freedom."""

    sd: float
    freedom: int

    @property
    def range(self) -> tuple[float, float]:
        """Where the true standard deviation lies, at :data:`LEVEL`: s·√(ν ÷ χ²), the chi-square
        interval of a normal distribution's standard deviation (NIST/SEMATECH e-Handbook of
        Statistical Methods, 1.3.5.8). It assumes normality, which the interval of a mean hardly
        needs.
        """
        low, high = (
            self.sd * math.sqrt(self.freedom / compute_chi_square_quantile(self.freedom, p))
            for p in (_TAIL, 1 - _TAIL)
        )
        return low, high


_TAIL = (1 - LEVEL) / 2


def pool_scatter(parts: Sequence[tuple[float, int]]) -> Scatter | None:
    """Pool several estimates of a scatter, each with its degrees of freedom: the mean of the
    squares, weighted by these. None where there are no degrees of freedom.
    """
    freedom = sum(n for _, n in parts)
    if freedom < 1:
        return None
    return Scatter(math.sqrt(math.fsum(n * sd**2 for sd, n in parts if n) / freedom), freedom)


def compute_half_width(
    scatter: float, blocks: int, confidence: float, common_freedom: int = 0
) -> float:
    """Return how far the interval of that many blocks reaches beyond its estimate, relative:
    e^(t·s÷√n) − 1, with Student's t for n − 1 degrees of freedom and those of a common variance
    (dballoc.questions.statistics.ratio_interval). Infinite below two blocks.
    """
    if blocks < 2:
        return math.inf
    # A campaign is planned by this where scipy may be missing.
    critical = find_t_quantile(blocks - 1 + common_freedom, (1 + confidence) / 2)
    return _convert_to_relative(critical * scatter / math.sqrt(blocks))


def compute_assured_half_width(scatter: float, blocks: int, confidence: float) -> float:
    """Return the half-width that the share :data:`ASSURANCE` of campaigns does not exceed, each
    with the standard deviation of its own blocks: that of s·√(χ²÷ν) with χ² at that quantile
    (Kupper and Hafner, *The American Statistician* 43, 1989). Infinite below two blocks.
    """
    if blocks < 2:
        return math.inf
    return compute_half_width(
        scatter * math.sqrt(find_chi_square_quantile(blocks - 1, 1 - ASSURANCE) / (blocks - 1)),
        blocks,
        confidence,
    )


def compute_detectable(
    scatter: float, blocks: int, confidence: float, common_freedom: int = 0
) -> float:
    """Return the smallest relative rise that that many blocks show with 80 % power; infinite below
    two blocks. ``common_freedom`` as in :func:`compute_half_width`.
    """
    if blocks < 2:
        return math.inf
    error = scatter / math.sqrt(blocks)
    return compute_detectable_by_error(error, blocks - 1 + common_freedom, confidence)


def convert_to_fall(rise: float) -> float:
    """Return the relative fall that is as far from 1 as a rise, in logarithms: 1 − 1 ÷ (1 + rise).
    Where a rise of 49 % is detectable, so is a fall of 33 %.
    """
    return rise / (1 + rise) if math.isfinite(rise) else 1.0


def compute_detectable_by_error(error: float, freedom: float, confidence: float) -> float:
    """Return the smallest relative difference that a mean of logarithms with that standard error
    shows with 80 % power: e^(δ·error) − 1, where δ is the noncentrality at which Student's t
    exceeds its critical value in 80 % of campaigns (Cohen, *Statistical Power Analysis*, 1988,
    chapter 12). The usual shortcut t₍₁₋α/₂₎ + t₍₀.₈₎ has a power of only 71 to 76 % at six blocks
    and the levels in use here.
    """
    critical = compute_t_quantile(freedom, (1 + confidence) / 2)
    return _convert_to_relative(compute_noncentrality(freedom, 1 - POWER, critical) * error)


def count_blocks_needed(
    scatter: float,
    difference: float,
    confidence: Callable[[int], float],
    common_freedom: int = 0,
) -> int | None:
    """Return the fewest blocks whose interval reaches no further than ``difference`` (relative:
    0.01 is 1 %) beyond its estimate; None beyond :data:`MOST_BLOCKS`. ``confidence``: the level for
    a number of planned blocks, lowest for two. ``common_freedom`` as in :func:`compute_half_width`.
    """
    # Student's quantile is above the normal one, and no level is lower: fewer blocks than this are
    # never enough.
    normal = compute_t_quantile(math.inf, (1 + confidence(2)) / 2)
    fewest = max(2, math.floor(min(MOST_BLOCKS, (normal * scatter / math.log1p(difference)) ** 2)))
    enough = (
        n
        for n in range(fewest, MOST_BLOCKS + 1)
        if compute_half_width(scatter, n, confidence(n), common_freedom) <= difference
    )
    return next(enough, None)


@dataclass(frozen=True)
class Need:
    """The number of ``blocks`` that resolves a relative ``difference``. ``low`` to ``high``: its
    range, as the scatter is itself estimated from a few blocks. None: more than
    :data:`MOST_BLOCKS`.
    """

    difference: float
    blocks: int | None
    low: int | None
    high: int | None


def compute_need(
    scatter: Scatter,
    difference: float,
    confidence: Callable[[int], float],
    common_freedom: int = 0,
) -> Need:
    """Return the blocks needed with that scatter; ``confidence`` and ``common_freedom`` as for
    :func:`count_blocks_needed`.
    """
    low, high = scatter.range
    return Need(
        difference,
        *(
            count_blocks_needed(s, difference, confidence, common_freedom)
            for s in (scatter.sd, low, high)
        ),
    )


def has_power(
    scatter: float, distance: float, blocks: int, confidence: float, power: float = POWER
) -> bool:
    """Whether the interval of that many blocks excludes a bound with that power, when the truth
    lies ``distance`` from it (a difference of logarithms). By the noncentral t, as in
    :func:`compute_detectable_by_error`.
    """
    if blocks < 2:
        return False
    critical = compute_t_quantile(blocks - 1, (1 + confidence) / 2)
    needed = compute_noncentrality(blocks - 1, 1 - power, critical)
    return needed * scatter / math.sqrt(blocks) <= distance


def count_blocks_to_exclude(
    scatter: float, distance: float, confidence: float, power: float = POWER
) -> int | None:
    """Return the fewest blocks with that power to exclude a bound ``distance`` from the truth (a
    difference of logarithms); None beyond :data:`MOST_BLOCKS`.
    """
    enough = 2
    while not has_power(scatter, distance, enough, confidence, power):
        enough *= 2
        if enough > MOST_BLOCKS:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if has_power(scatter, distance, middle, confidence, power):
            enough = middle
        else:
            too_few = middle
    return enough


def _convert_to_relative(log: float) -> float:
    """Return e^log − 1; infinite where that exceeds a float."""
    return math.expm1(log) if log < 700 else math.inf
