"""Ratios and differences as people read them. Every function is pure and gives text."""

import math
import signal

from dballoc.ground.numbers import NOTHING, number, percent
from dballoc.questions.statistics.detectable_difference import convert_to_fall
from dballoc.questions.statistics.ratio_interval import Interval, Ratio

# A smallest detectable difference above this means no more than "almost anything".
_HUGE = 10.0

# Mallocs differ by less. Where not even this would be shown, the size of what would is no help.
_NOISY = 0.1

# An upper end beyond this, as two blocks may give, is printed as a bound only.
_ENDLESS = 1000


def format_mean(mean: float | None, low: float | None, high: float | None) -> str:
    """Return ``1,234 [1,200, 1,268]``; the mean alone without an interval."""
    return (
        number(mean)
        if low is None or high is None
        else f"{number(mean)} [{number(low)}, {number(high)}]"
    )


def format_ratio(
    estimate: float | None, low: float | None = None, high: float | None = None
) -> str:
    """Return a ratio, ``0.970 [0.962, 0.978]``; an interval that is missing or without an end is
    left out.
    """
    if estimate is None:
        return NOTHING
    if low is None or high is None or not math.isfinite(high):
        return _round_ratio(estimate)
    return f"{_round_ratio(estimate)} [{_round_ratio(low)}, {_round_ratio(high)}]"


def show_ratio(ratio: Ratio | None) -> str:
    """Return a measured ratio, ``0.970 [0.962, 0.978]``."""
    return format_ratio(ratio.estimate, ratio.low, ratio.high) if ratio else NOTHING


def format_judged(ratio: Ratio, better: str, *, by_interval: bool) -> str:
    """Return a ratio with what decided on it: its interval, ``0.870 [0.840, 0.900]``, or its bound
    on the bad side, ``1.004, at most 1.021``. ``better``: "higher" or "lower".
    """
    if by_interval or ratio.reach is None:
        return show_ratio(ratio)
    return f"{format_ratio(ratio.estimate)}, {format_bound(ratio.reach, better)}"


def format_bound(reach: Interval, better: str) -> str:
    """Return how far a ratio may lie on the bad side: ``at most 1.021``, ``at least 0.981``."""
    words, end = ("at most", reach.high) if better == "lower" else ("at least", reach.low)
    return f"{words} {_round_ratio(end)}"


def describe_ratio(ratio: Ratio | None) -> dict[str, float | None]:
    """Return a measured ratio and its ends as plain data, None where there is none."""
    if ratio is None:
        return dict.fromkeys(("ratio", "low", "high"))
    return {"ratio": ratio.estimate, "low": ratio.low, "high": ratio.high}


def format_change(
    estimate: float | None, low: float | None = None, high: float | None = None
) -> str:
    """Return a ratio as a difference, ``−3.0 [−3.8, −2.2]``, in per cent."""
    if estimate is None:
        return NOTHING
    if low is None or high is None:
        return _format_signed(estimate)
    return f"{_format_signed(estimate)} [{_format_signed(low)}, {_format_signed(high)}]"


def format_detectable(rise: float) -> str:
    """Return a smallest detectable difference, a rise, and the fall that is as far from 1:
    ``+49 % or −33 %``; beyond tenfold only that.
    """
    if rise > _HUGE:
        return format_reach(rise)
    return f"+{format_reach(rise)} or −{format_reach(convert_to_fall(rise))}"


def describe_resolution(rise: float) -> str:
    """Return what stands beside a comparison that shows no difference: the smallest detectable one,
    or that the figure is too noisy.
    """
    if rise > _NOISY:
        return f"too noisy here to show one of {percent(_NOISY, 0)}"
    return f"smallest detectable: {format_detectable(rise)}"


def format_reach(share: float) -> str:
    """Return how far an interval reaches; beyond tenfold only that."""
    return percent(share, 1 if share < 0.1 else 0) if share <= _HUGE else f"> {_HUGE * 100:,.0f} %"


def describe_exit(status: int | None) -> str:
    """Return how a process ended: ``SIGKILL``, ``status 1``."""
    if status is None:
        return NOTHING
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _round_ratio(ratio: float) -> str:
    if ratio > _ENDLESS:
        return f"> {_ENDLESS}"
    return f"{ratio:.{3 if ratio < 10 else 1 if ratio < 100 else 0}f}"


def _format_signed(ratio: float) -> str:
    difference = (ratio - 1) * 100
    if ratio > _ENDLESS:
        return f"> +{_ENDLESS * 100:,}"
    text = f"{difference:+.{1 if abs(difference) < 100 else 0}f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")
