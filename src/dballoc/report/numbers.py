"""Numbers as people read them: ratios, percentages, sizes. Every function is pure and gives text."""

import math
import signal

NOTHING = "–"

# Above this a smallest detectable difference says no more than "almost anything".
_HUGE = 10.0

# An upper end beyond this, as two blocks may give, is as good as none.
_ENDLESS = 1000


def number(value: float | None) -> str:
    """Three or more significant digits: ``1,234``, ``56.7``, ``8.90``, ``0.123``."""
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 or size == 0 else 3
    return f"{value:,.{digits}f}".replace("-", "−")


def spread(mean: float | None, low: float | None, high: float | None) -> str:
    """``1,234 [1,200, 1,268]``; the mean alone without an interval."""
    return number(mean) if low is None or high is None else f"{number(mean)} [{number(low)}, {number(high)}]"


def times(estimate: float | None, low: float | None = None, high: float | None = None) -> str:
    """A ratio, ``0.970 [0.962, 0.978]``; an interval that is missing or without an end is left out."""
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


def percent(share: float | None, digits: int = 1) -> str:
    """``5.2 %`` of a share (1 = 100 %)."""
    return NOTHING if share is None else f"{share * 100:.{digits}f} %"


def detectable(share: float) -> str:
    """A smallest detectable difference; beyond tenfold only that."""
    return percent(share, 1 if share < 0.1 else 0) if share <= _HUGE else f"> {_HUGE * 100:,.0f} %"


def mebibytes(size: float | None) -> str:
    """Bytes in MiB, without the unit: ``164.3``; for columns that name it."""
    return NOTHING if size is None else f"{size / 2**20:,.1f}".replace("-", "−")


def with_unit(size: float | None) -> str:
    """Bytes with a unit: ``164 MiB``, ``15.6 GiB``."""
    if size is None:
        return NOTHING
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{number(size / factor)} {unit}"
    return f"{size:.0f} bytes" if size else "none"


def duration(seconds: float) -> str:
    """About how long: ``45 s``, ``6 min``, ``2.5 h``, ``12 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"


def count(n: int, one: str, many: str | None = None) -> str:
    """``1 block``, ``6 blocks``."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def listing(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


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
