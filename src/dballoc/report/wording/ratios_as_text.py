"""Ratios and differences as people read them. Every function is pure and gives text."""

import math
import signal

# The general ones, under the name by which the report's files know them.
from dballoc.numbers import NOTHING as NOTHING
from dballoc.numbers import count as count
from dballoc.numbers import duration as duration
from dballoc.numbers import listing as listing
from dballoc.numbers import mebibytes as mebibytes
from dballoc.numbers import number as number
from dballoc.numbers import percent as percent
from dballoc.numbers import with_unit as with_unit

# Above this a smallest detectable difference says no more than "almost anything".
_HUGE = 10.0

# An upper end beyond this, as two blocks may give, is as good as none.
_ENDLESS = 1000


def spread(mean: float | None, low: float | None, high: float | None) -> str:
    """``1,234 [1,200, 1,268]``; the mean alone without an interval."""
    return (
        number(mean)
        if low is None or high is None
        else f"{number(mean)} [{number(low)}, {number(high)}]"
    )


def times(estimate: float | None, low: float | None = None, high: float | None = None) -> str:
    """A ratio, ``0.970 [0.962, 0.978]``; an interval that is missing or without an end is
    left out.
    """
    if estimate is None:
        return NOTHING
    if low is None or high is None or not math.isfinite(high):
        return _ratio(estimate)
    return f"{_ratio(estimate)} [{_ratio(low)}, {_ratio(high)}]"


def change(estimate: float | None, low: float | None = None, high: float | None = None) -> str:
    """A ratio as a difference, ``−3.0 [−3.8, −2.2]``, in per cent."""
    if estimate is None:
        return NOTHING
    if low is None or high is None:
        return _signed(estimate)
    return f"{_signed(estimate)} [{_signed(low)}, {_signed(high)}]"


def detectable(share: float) -> str:
    """A smallest detectable difference; beyond tenfold only that."""
    return percent(share, 1 if share < 0.1 else 0) if share <= _HUGE else f"> {_HUGE * 100:,.0f} %"


def exit_words(status: int | None) -> str:
    """How a process ended: ``SIGKILL``, ``status 1``."""
    if status is None:
        return NOTHING
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _ratio(ratio: float) -> str:
    if ratio > _ENDLESS:
        return f"> {_ENDLESS}"
    return f"{ratio:.{3 if ratio < 10 else 1 if ratio < 100 else 0}f}"


def _signed(ratio: float) -> str:
    difference = (ratio - 1) * 100
    if ratio > _ENDLESS:
        return f"> +{_ENDLESS * 100:,}"
    text = f"{difference:+.{1 if abs(difference) < 100 else 0}f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")
