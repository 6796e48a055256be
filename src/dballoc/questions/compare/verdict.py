"""Judge an interval: which verdict it is, and what it says with regard to action. Pure.

Verdicts say what differs from 1. To act takes more: a gain that is worth a change, and proof that
nothing else is lost, the non-inferiority of a variant within a margin named before the first block
(Walker and Nowacki, *Understanding equivalence and noninferiority testing*, Journal of General
Internal Medicine 26, 2011). A gain and a loss are read off the two-sided interval, non-inferiority
off the one-sided bound: see :mod:`dballoc.questions.compare.procedure`.
"""

from dataclasses import dataclass
from enum import StrEnum

from dballoc.questions.compare.procedure import MARGIN
from dballoc.questions.compare.procedure import MARGIN as LEAST_GAIN
from dballoc.questions.statistics.ratio_interval import Ratio


class Verdict(StrEnum):
    """What an interval says of a variant against the baseline."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "equivalent within ±1 %"
    UNDECIDED = "no difference shown"
    NOT_JUDGED = "not judged yet"


def judge_ratio(ratio: Ratio | None) -> Verdict:
    """Return the verdict by the printed interval alone: what can be read off it is what is decided.

    An interval that excludes 1 and yet lies within ±1 % is a difference, although a small one.
    """
    if ratio is None or ratio.interval is None:
        return Verdict.UNDECIDED
    low, high = ratio.interval
    if low > 1:
        return Verdict.HIGHER
    if high < 1:
        return Verdict.LOWER
    if low >= 1 - MARGIN and high <= 1 + MARGIN:
        return Verdict.EQUIVALENT
    return Verdict.UNDECIDED


# What a variant may lose where the user names no other margin.
DEFAULT_MARGIN = 0.03


class Noninferiority(StrEnum):
    """What a comparison says of a variant with regard to action."""

    BETTER = "better"
    NO_WORSE = "no worse"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """The ratios that have to be cleared: by the whole interval ``gain`` to be better and ``loss``
    to be worse, by the bound ``tolerance`` to be no worse.
    """

    gain: float
    tolerance: float
    loss: float


def compute_thresholds(better: str, margin: float) -> Thresholds:
    """Return the thresholds of a metric. A figure that should be low may rise by ``margin``; one
    that should be high may fall by ``margin``: 3 % of throughput end at 0.97, not at 1 ÷ 1.03.
    ``better``: "higher" or "lower".
    """
    upward = 1 if better == "lower" else -1
    return Thresholds(
        gain=1 - upward * LEAST_GAIN,
        tolerance=1 + upward * margin,
        loss=1 + upward * min(LEAST_GAIN, margin),
    )


def judge_standing(ratio: Ratio | None, better: str, margin: float) -> Noninferiority:
    """Judge a ratio: better and worse by its interval, no worse by its bound. One whose bound is
    within the margin is no worse, even if it is shown to be a little worse; without an interval
    nothing is decided.
    """
    if ratio is None or ratio.interval is None or ratio.reach is None:
        return Noninferiority.UNDECIDED
    low, high = ratio.interval
    limits = compute_thresholds(better, margin)
    if better == "lower":
        tests = (high < limits.gain, ratio.reach.high < limits.tolerance, low > limits.loss)
    else:
        tests = (low > limits.gain, ratio.reach.low > limits.tolerance, high < limits.loss)
    shown = (Noninferiority.BETTER, Noninferiority.NO_WORSE, Noninferiority.WORSE)
    return next(
        (s for s, holds in zip(shown, tests, strict=True) if holds), Noninferiority.UNDECIDED
    )
