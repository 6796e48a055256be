"""Compute ratios to the baseline, with Student's t intervals on their logarithms. Pure.

Moderate the variances of a metric's comparisons: each borrows from the mean of all. Pure.

With six blocks a comparison's own variance has five degrees of freedom, and Student's t pays for
that with a third of the interval's width. The comparisons of one metric scatter for the same
reasons (the machine, the load, the baseline that they share), so that their mean says what a usual
variance is. The shape of the estimate is that of Smyth, Linear models and empirical Bayes methods
for assessing differential expression in microarray experiments (Statistical Applications in
Genetics and Molecular Biology 3, 2004): a weighted mean of a common variance, with f degrees of
freedom, and the comparison's own, with n − 1.

Three things differ from Smyth's, all because a campaign has ten variances where he has thousands,
and one variant may scatter several times as much as the others:

- f is not estimated but fixed, 3 at most, and fewer the less a comparison may err
  (:data:`COMMON_FREEDOM`): what a wild variant borrows tells most far out in the tail. Estimated,
  simulated campaigns with one wild variant had 18 % of false verdicts at a level of 5 %.
- A comparison whose variance is more than 2.5 times the mean of the others' keeps its own variance
  and degrees of freedom. Without that guard a wild variant errs 3 to 5 times as often as its
  printed level says.
- No variance is taken for smaller than the comparison's own. Where it would be, the guard alone
  let a variant of 3 to 4 times the scatter err almost 3 times as often as its level says.

docs/evidence.md has the simulated errors, by benchmarks/simulated_campaigns.py.
"""

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from dballoc.ground.distributions import compute_t_quantile
from dballoc.questions.statistics.detectable_difference import compute_detectable_by_error

# The most degrees of freedom that the common variance counts for, by the least error of a
# comparison, over all its looks, from which that holds; none below the last.
COMMON_FREEDOM = ((0.004, 3), (0.002, 2), (0.001, 1))

# A variance above so many times the mean of the others' is not of their kind.
GUARD = 2.5


@dataclass(frozen=True)
class Variance:
    """A variance of logarithms from block to block, with its degrees of freedom."""

    value: float
    freedom: int


Name = TypeVar("Name", bound=Hashable)


def count_common_freedom(variances: int, error: float) -> int:
    """Return the degrees of freedom that the mean of so many variances counts for in a comparison
    that may err so often, over all its looks.
    """
    most = next((freedom for least, freedom in COMMON_FREEDOM if error >= least), 0)
    return max(0, min(most, variances - 1))


def moderate_variances(variances: Mapping[Name, Variance], error: float) -> dict[Name, Variance]:
    """Return every comparison's moderated variance: (f·s̄² + (n − 1)·s²) ÷ (f + n − 1), or s² where
    that is larger, with f + n − 1 degrees of freedom; its own where it is alone, or wild.

    ``variances``: one metric's, on one scale: those of the variants' logarithms to the baseline,
    and of the A/A pair. ``error``: what one comparison of the metric may err, over all its looks.
    """
    total = sum(v.value for v in variances.values())
    common = count_common_freedom(len(variances), error)
    if not common:
        return dict(variances)
    mean = total / len(variances)
    moderated = {}
    for name, variance in variances.items():
        others = (total - variance.value) / (len(variances) - 1)
        if variance.value > GUARD * others:
            moderated[name] = variance
        else:
            freedom = common + variance.freedom
            mixed = (common * mean + variance.freedom * variance.value) / freedom
            moderated[name] = Variance(max(mixed, variance.value), freedom)
    return moderated


# The level of intervals that are no part of a verdict.
DESCRIPTIVE_CONFIDENCE = 0.95

# The logarithm of the largest number.
_MOST = math.log(sys.float_info.max)


class Interval(NamedTuple):
    """The ends of a ratio's interval."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """One figure ÷ another, from a mean of logarithms. ``interval`` is None where the scatter is
    not known (below two blocks), and before the first look. ``error``: the standard error of ln
    ratio, with ``freedom`` degrees of freedom; None below two blocks. ``bounds``: one-sided, at
    least ``low`` and at most ``high``, each for itself; None where the procedure gives none.

    Where blocks are paired, ``scatter`` is the standard deviation of ln ratio from block to block
    that the interval rests on, moderated where the campaign's procedure says so, and
    ``own_scatter`` that of these blocks alone.
    """

    estimate: float
    blocks: int
    confidence: float
    interval: Interval | None = None
    bounds: Interval | None = None
    error: float | None = None
    freedom: float | None = None
    scatter: float = math.nan
    own_scatter: float = math.nan

    @property
    def low(self) -> float | None:
        """The interval's lower end."""
        return self.interval.low if self.interval else None

    @property
    def high(self) -> float | None:
        """The interval's upper end."""
        return self.interval.high if self.interval else None

    @property
    def reach(self) -> Interval | None:
        """How far the ratio reaches on each side taken for itself: ``bounds``, or the interval
        where there are none.
        """
        return self.bounds or self.interval

    @property
    def figures(self) -> tuple[float, float | None, float | None]:
        """The estimate and both ends."""
        return self.estimate, self.low, self.high

    @property
    def detectable(self) -> float:
        """The smallest relative rise that as many blocks would show with 80 % power; infinite below
        two blocks. A fall has the same size as a logarithm: see
        :func:`dballoc.questions.statistics.detectable_difference.convert_to_fall`.
        """
        if self.error is None or self.freedom is None:
            return math.inf
        return compute_detectable_by_error(self.error, self.freedom, self.confidence)

    def invert(self) -> "Ratio":
        """Return the ratio of what costs less the more there is of the other: 1 ÷ this."""
        interval, bounds = (
            ends and Interval(1 / ends.high, 1 / ends.low) for ends in (self.interval, self.bounds)
        )
        return replace(self, estimate=1 / self.estimate, interval=interval, bounds=bounds)


@dataclass(frozen=True, kw_only=True)
class UnpairedRatio(Ratio):
    """The second campaign's figure ÷ the first's. ``blocks_of_each``: the number in each campaign;
    ``blocks``: the smaller of the two.
    """

    blocks_of_each: tuple[int, int]


def compute_variance(logs: Sequence[float]) -> Variance:
    """Return the variance of logarithms, one a block. Raises ValueError below two blocks."""
    if len(logs) < 2:
        raise ValueError("a variance takes two blocks")
    mean = math.fsum(logs) / len(logs)
    freedom = len(logs) - 1
    return Variance(math.fsum((d - mean) ** 2 for d in logs) / freedom, freedom)


def compute_ratio(
    logs: Sequence[float],
    confidence: float = DESCRIPTIVE_CONFIDENCE,
    variance: Variance | None = None,
) -> Ratio:
    """Compute exp(mean) and its t interval from one ln ratio per block. ``variance``: the moderated
    one, instead of that of the blocks. ValueError without any block.
    """
    if not logs:
        raise ValueError("no block to take a ratio from")
    blocks = len(logs)
    mean = math.fsum(logs) / blocks
    estimate = Ratio(estimate=exp_clamped(mean), blocks=blocks, confidence=confidence)
    if blocks == 1:
        return estimate
    plain = compute_variance(logs)
    used = variance or plain
    scatter = math.sqrt(used.value)
    half = compute_t_quantile(used.freedom, (1 + confidence) / 2) * scatter / math.sqrt(blocks)
    return replace(
        estimate,
        interval=compute_interval(mean, half),
        error=scatter / math.sqrt(blocks),
        freedom=used.freedom,
        scatter=scatter,
        own_scatter=math.sqrt(plain.value),
    )


def compute_bounds(
    logs: Sequence[float], level: float, variance: Variance | None = None
) -> Interval | None:
    """Compute the one-sided t bounds of exp(mean) from one ln ratio per block: at least ``low``, at
    most ``high``, each at that level. None below two blocks. ``variance`` as in
    :func:`compute_ratio`.
    """
    return compute_ratio(logs, 2 * level - 1, variance).interval


def compute_unpaired_ratio(
    first: Sequence[float], second: Sequence[float], confidence: float
) -> UnpairedRatio:
    """Compute exp(mean second − mean first) with Welch's *t* interval, from one logarithm per block
    of each campaign.

    Blocks of different campaigns ran at different times, so nothing pairs them. Raises ValueError
    if a campaign has no block.
    """
    if not first or not second:
        raise ValueError("a campaign without a block")
    blocks = len(first), len(second)
    mean = math.fsum(second) / len(second) - math.fsum(first) / len(first)
    estimate = UnpairedRatio(
        estimate=exp_clamped(mean),
        blocks=min(blocks),
        blocks_of_each=blocks,
        confidence=confidence,
    )
    if min(blocks) == 1:
        return estimate
    a, b = (compute_variance(logs).value / len(logs) for logs in (first, second))
    error = math.sqrt(a + b)
    # Without any scatter at all the degrees of freedom are 0 ÷ 0, and do not matter.
    freedom = (
        (a + b) ** 2 / (a**2 / (blocks[0] - 1) + b**2 / (blocks[1] - 1))
        if error
        else float(sum(blocks) - 2)
    )
    half = compute_t_quantile(freedom, (1 + confidence) / 2) * error
    return replace(estimate, interval=compute_interval(mean, half), error=error, freedom=freedom)


def compute_interval(mean: float, half: float) -> Interval:
    """Return the interval of a ratio from the mean of its logarithms and half of their width."""
    return Interval(exp_clamped(mean - half), exp_clamped(mean + half))


def exp_clamped(log: float) -> float:
    """Return a ratio, or an interval's end, from its logarithm. Two wild blocks at the level of a
    large family may give one beyond all floats: then it is the largest float, which charts and JSON
    can show, or 1 ÷ that.
    """
    if log >= _MOST:
        return sys.float_info.max
    return math.exp(max(log, -_MOST))
