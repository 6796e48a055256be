"""Judge an interval: the four verdicts, and none before the first look. Pure."""

from enum import StrEnum

from dballoc.analysis.decisions.sequential_test import MARGIN
from dballoc.analysis.statistics.ratio_interval import Ratio


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
