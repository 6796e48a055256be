"""Judge an interval: the four verdicts, and none before the first look. Pure."""

from enum import StrEnum
from typing import Protocol

from dballoc.analysis.decisions.sequential_test import MARGIN


class Verdict(StrEnum):
    """What an interval says of a variant against the baseline."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "equivalent within ±1 %"
    UNDECIDED = "no difference shown"
    NOT_JUDGED = "not judged yet"


class Interval(Protocol):
    """The interval of a ratio, whatever it was computed from."""

    @property
    def low(self) -> float:
        """Its lower end."""

    @property
    def high(self) -> float:
        """Its upper end."""


def judge_interval(ratio: Interval) -> Verdict:
    """Return the verdict by the printed interval alone: what can be read off it is what is decided.

    An interval that excludes 1 and yet lies within ±1 % is a difference, although a small one.
    """
    if ratio.low > 1:
        return Verdict.HIGHER
    if ratio.high < 1:
        return Verdict.LOWER
    if ratio.low >= 1 - MARGIN and ratio.high <= 1 + MARGIN:
        return Verdict.EQUIVALENT
    return Verdict.UNDECIDED


def is_decided(ratio: Interval) -> bool:
    """Whether more blocks could only repeat the verdict."""
    return judge_interval(ratio) is not Verdict.UNDECIDED
