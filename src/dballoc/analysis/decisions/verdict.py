"""The four verdicts. Pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from dballoc.analysis.decisions.sequential_test import MARGIN


class Verdict(StrEnum):
    """What an interval says of a variant against the baseline."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "equivalent within ±1 %"
    UNDECIDED = "no difference shown"


class Interval(Protocol):
    """Of a ratio, whatever it came from."""

    @property
    def low(self) -> float:
        """Its lower end."""

    @property
    def high(self) -> float:
        """Its upper end."""


def judge_interval(ratio: Interval) -> Verdict:
    """By the printed interval alone: what one can read off it is what is decided.

    An interval that excludes 1 and yet lies within ±1 % is a difference, and a small one.
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


def all_decided(ratios: Iterable[Interval | None]) -> bool:
    """The stop rule, asked at the planned looks alone: every comparison has a ratio, and each is
    decided. Where nothing is compared nothing is decided.
    """
    intervals = list(ratios)
    return bool(intervals) and all(ratio is not None and is_decided(ratio) for ratio in intervals)


def narrow(ratio: Interval | None) -> bool:
    """The stop rule of the baseline alone, asked at the planned looks: its interval is no wider
    than that of an equivalence.
    """
    return ratio is not None and ratio.high - ratio.low <= 2 * MARGIN
