"""Numbers as people read them: sizes, shares, durations. Every function is pure and gives text."""

import math
from collections.abc import Sequence

NOTHING = "–"


def number(value: float | None) -> str:
    """Three or more significant digits: ``1,234``, ``56.7``, ``8.90``, ``0.123``."""
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 or size == 0 else 3
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 1) -> str:
    """``5.2 %`` of a share (1 = 100 %)."""
    return NOTHING if share is None else f"{share * 100:.{digits}f} %".replace("-", "−")


def mebibytes(size: float | None) -> str:
    """Bytes in MiB, without the unit: ``164.3``; for columns that name it."""
    return NOTHING if size is None else f"{size / 2**20:,.1f}".replace("-", "−")


def with_unit(size: float | None) -> str:
    """Bytes with a unit: ``164 MiB``, ``15.6 GiB``, ``8.00 TiB``."""
    if size is None:
        return NOTHING
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
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


def count(n: int, singular: str, many: str | None = None) -> str:
    """``1 block``, ``6 blocks``."""
    return f"{n} {singular if n == 1 else many or singular + 's'}"


def listing(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def signed_mebibytes(size: float) -> str:
    """A difference of bytes in MiB, without the unit: ``+12.3``, ``−4.0``, ``0.0``."""
    text = f"{size / 2**20:+,.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")
