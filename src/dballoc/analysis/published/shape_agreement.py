"""Judge whether our figures have the shape of published ones: which figure is above which. Pure.

Published figures come from another machine and another version, mostly from one run: ours need not
match their size, but their order. Every two figures of a row are one question. A published ratio
within :data:`BAND` of 1 says "as good as equal", one beyond it "more" or "less". Our whole 95 %
interval must say the same, or nothing is decided:

as good as equal   agrees if the interval lies within the band, differs if it lies wholly beyond
more (less)        agrees if the interval lies above (below) 1 and reaches beyond the band; differs
                   if it lies on the other side of 1, or within the band
"""

from collections.abc import Iterable
from enum import StrEnum

from dballoc.analysis.statistics.ratio_interval import Interval

# Single runs of the same server differ by this.
BAND = 0.02


class Shape(StrEnum):
    """Whether our figures agree with the published ones."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"


def judge_shape(published: float, interval: Interval | None) -> Shape:
    """Judge our interval by the published ratio; undecided without an interval."""
    if interval is None:
        return Shape.UNDECIDED
    low, high = interval
    within = low >= 1 - BAND and high <= 1 + BAND
    if _is_equal(published):
        beyond = low > 1 + BAND or high < 1 - BAND
        return Shape.AGREES if within else Shape.DIFFERS if beyond else Shape.UNDECIDED
    same, other = (low > 1, high < 1) if published > 1 else (high < 1, low > 1)
    if within or other:
        return Shape.DIFFERS
    return Shape.AGREES if same else Shape.UNDECIDED


def combine_shapes(shapes: Iterable[Shape]) -> Shape:
    """Return the shape of a row: it differs if any two of its figures do, and agrees if all that is
    decided agrees.
    """
    distinct = set(shapes)
    for shape in (Shape.DIFFERS, Shape.AGREES):
        if shape in distinct:
            return shape
    return Shape.UNDECIDED


def _is_equal(ratio: float) -> bool:
    return 1 - BAND <= ratio <= 1 + BAND
