"""Estimate from a short pilot where the scatter of a duet comes from, and choose slices and pairs
accordingly. Pure.

The model of one piece's ln ratio, start b, slice s, piece k of it, with h = ±1 for the half that
the partner is on:

    r = mu + B(b) + h(s) * H(b) + S(b, s) + e(b, s, k)

B: the luck of a start; H: how far the halves differ, which swapping removes; S: what stays the same
within a slice and is new in the next; e: the rest. The variances of B, S and e are estimated by the
nested analysis of variance (method of moments; Searle, Casella, McCulloch, *Variance Components*,
1992, chapter 4).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance
from typing import NamedTuple

from dballoc.experiment.model import SHORTEST_COUNTED
from dballoc.questions.compare.procedure import FIRST_LOOK, LAST_LOOK
from dballoc.questions.statistics.detectable_difference import (
    compute_assured_half_width,
    compute_half_width,
)
from dballoc.store.facts import ScatterComponents, SlicePlan

# A few starts say little about how starts scatter, so the estimate is shrunk towards a prior from
# another machine (block means scattered by 0.4 to 1.7 %), as if that came from this many degrees of
# freedom. It decides how time is spent, not a verdict.
PRIOR_START = 0.005
PRIOR_FREEDOM = 2

# Other tenants of a machine disturb it in bursts of a second or two. One may fill a block of few
# slices, and then the interquartile mean does not leave it out: the variance of a block's value
# falls as (1 + so many seconds ÷ its counted ones) ÷ its pairs (docs/evidence.md, from
# benchmarks/block_length.py).
BURST_SECONDS = 1.7

# The lengths of a slice (seconds) and the pairs of slices in a block that are considered. Of fewer
# pairs the interquartile mean leaves out nothing.
LENGTHS = (0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 4.0)
LEAST_PAIRS, MOST_PAIRS = 4, 120


@dataclass(frozen=True, kw_only=True)
class Components(ScatterComponents):
    """The components, and what follows from them."""

    def block(self, length: float, pairs: int) -> float:
        """Return the standard deviation of the value of a block with ``pairs`` of slices, each with
        ``length`` counted seconds.
        """
        within = self.slice**2 + self.piece**2 * self.seconds / length
        few = 1 + BURST_SECONDS / (2 * pairs * length)
        return math.sqrt(self.start**2 + within * few / (2 * pairs))


def estimate_components(starts: Sequence[Sequence[Sequence[float]]], seconds: float) -> Components:
    """Estimate the components from the pilot's ln ratios by start, slice (halves alternate from one
    to the next) and piece of ``seconds``.

    Raises ValueError unless there are two starts, of at least four slices with the same number of
    pieces, two or more.
    """
    slices, pieces = (
        len(starts[0]) if starts else 0,
        len(starts[0][0]) if starts and starts[0] else 0,
    )
    if (
        len(starts) < 2
        or slices < 4
        or pieces < 2
        or any(len(s) != slices or any(len(p) != pieces for p in s) for s in starts)
    ):
        raise ValueError(
            "a pilot has two starts or more, each with the same four slices or more, each with "
            "the same two pieces or more"
        )
    within_slice = fmean([variance(p) for start in starts for p in start])
    parts = [_split_start([fmean(p) for p in start]) for start in starts]
    slice_square = fmean([start.slice_square for start in parts])
    start_square = max(0.0, variance([start.mean for start in parts]) - slice_square / slices)
    freedom = len(starts) - 1
    start_square = (freedom * start_square + PRIOR_FREEDOM * PRIOR_START**2) / (
        freedom + PRIOR_FREEDOM
    )
    return Components(
        start=math.sqrt(start_square),
        slice=math.sqrt(max(0.0, slice_square - within_slice / pieces)),
        piece=math.sqrt(within_slice),
        halves=fmean([abs(start.half) for start in parts]),
        seconds=seconds,
    )


class _StartParts(NamedTuple):
    """A start's mean, the difference that the halves make (H), and the variance between slices."""

    mean: float
    half: float
    slice_square: float


def _split_start(slice_means: Sequence[float]) -> _StartParts:
    mean = fmean(slice_means)
    signs = [1 if i % 2 else -1 for i in range(len(slice_means))]
    half = fmean([sign * (v - mean) for sign, v in zip(signs, slice_means, strict=True)])
    rest = [v - mean - sign * half for sign, v in zip(signs, slice_means, strict=True)]
    return _StartParts(mean, half, math.fsum(r * r for r in rest) / (len(slice_means) - 2))


def compute_interquartile_gain(starts: Sequence[Sequence[float]]) -> float:
    """Return the standard error of the interquartile mean ÷ that of the mean, for values that
    scatter as those of the ``starts`` do about the median of each: 2·s_w ÷ s, with the Winsorized
    standard deviation s_w (Tukey and McLaughlin, *Sankhya* A 25, 1963). Below 1 where few values
    stand out; 1 where nothing scatters.
    """
    middles = [median(values) if values else 0.0 for values in starts]
    rest = sorted(
        value - middle for values, middle in zip(starts, middles, strict=True) for value in values
    )
    end = len(rest) // 4
    drawn_in = [min(max(value, rest[end]), rest[-1 - end]) for value in rest]
    total = variance(rest) if len(rest) > 1 else 0.0
    return 2 * math.sqrt(variance(drawn_in) / total) if total > 0 else 1.0


@dataclass(frozen=True)
class BlockCosts:
    """What a block of the duet costs apart from its slices, in seconds: ``fixed`` once,
    ``overhead`` for each of its ``pairings`` (starts, warm-ups, stops); ``workloads``: how many run
    in each.
    """

    fixed: float
    overhead: float
    pairings: int
    workloads: int

    def block(self, length: float, pairs: int) -> float:
        """Return the seconds of a block with ``pairs`` of slices of ``length`` seconds."""
        return self.fixed + self.pairings * (self.overhead + self.workloads * 2 * pairs * length)


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What the experiment asks for; None where it leaves the choice open. ``time``: seconds for all
    blocks.
    """

    slice: float | None
    pairs: int | None
    blocks: int | None
    time: float | None
    discard: float


def plan_slices(
    spread: Components, costs: BlockCosts, wishes: PlanRequest, confidence: Mapping[int, float]
) -> SlicePlan:
    """Choose the slices, pairs and blocks that make the narrowest interval in the time there is.
    The interval meant is the one that nine campaigns in ten do not exceed, not the expected one:
    six blocks tell little about the scatter itself, so this favours more and shorter blocks.

    ``confidence``: the level of the intervals for each number of planned blocks. Without a time,
    there are 6 blocks unless the experiment asks for another number, and pairs are added as long as
    they shorten the time that a given precision takes.
    """
    lengths = (
        [wishes.slice]
        if wishes.slice
        else [n for n in LENGTHS if round(n - wishes.discard, 6) >= SHORTEST_COUNTED]
    )
    counts = [wishes.pairs] if wishes.pairs else range(LEAST_PAIRS, MOST_PAIRS + 1)
    candidates = []
    for length in lengths:
        for pairs in counts:
            cost = costs.block(length, pairs)
            scatter = spread.block(length - wishes.discard, pairs)
            blocks = _choose_blocks(wishes, cost)
            late = max(0.0, blocks * cost - wishes.time) if wishes.time is not None else 0.0
            level = confidence[blocks]
            half = compute_half_width(scatter, blocks, level)
            # Within a time the narrowest; without one the most efficient; where nothing fits, what
            # exceeds the time least.
            aim = (
                compute_assured_half_width(scatter, blocks, level)
                if wishes.time is not None
                else scatter**2 * cost
            )
            candidates.append(
                (
                    late,
                    aim,
                    cost,
                    SlicePlan(
                        slice=length,
                        discard=wishes.discard,
                        pairs=pairs,
                        blocks=blocks,
                        block_seconds=cost,
                        half_width=half,
                        confidence=level,
                    ),
                )
            )
    return min(candidates, key=lambda c: c[:3])[3]


def fit_pairs(costs: BlockCosts, length: float, seconds: float) -> int:
    """Return the pairs of slices of ``length`` with which a block takes about ``seconds``, within
    what is considered at all.
    """
    a_pair = costs.pairings * costs.workloads * 2 * length
    return max(LEAST_PAIRS, min(MOST_PAIRS, int((seconds - costs.block(length, 0)) / a_pair)))


def _choose_blocks(wishes: PlanRequest, cost: float) -> int:
    if wishes.blocks is not None:
        return wishes.blocks
    if wishes.time is None:
        return FIRST_LOOK
    return max(FIRST_LOOK, min(LAST_LOOK, int(wishes.time // cost)))
