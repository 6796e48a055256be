"""When a campaign may stop before its planned blocks. Pure.

It may stop at a planned look alone (:attr:`dballoc.analysis.decisions.sequential_test.Procedure`
has their numbers of blocks in ``looks``), each design for itself, when every comparison of the
design with the baseline is decided. A campaign of the baseline alone compares nothing: it stops
when the A/A intervals are narrow.
"""

from collections.abc import Iterable

from dballoc.analysis.decisions.sequential_test import MARGIN
from dballoc.analysis.decisions.verdict import Interval, is_decided


def all_decided(ratios: Iterable[Interval | None]) -> bool:
    """Whether every comparison has an interval, and each is decided; False where nothing is
    compared.
    """
    intervals = list(ratios)
    return bool(intervals) and all(ratio is not None and is_decided(ratio) for ratio in intervals)


def narrow(ratio: Interval | None) -> bool:
    """Whether an A/A interval is no wider than that of an equivalence; False without one."""
    return ratio is not None and ratio.high - ratio.low <= 2 * MARGIN
