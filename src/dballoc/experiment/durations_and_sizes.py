"""Parse and format durations and sizes as people write them: ``"10s"``, ``"2m"``, ``"256M"``."""

import re

# Ten years, and the address space of 57 bits: anything larger is a typing error.
_LONGEST, _LARGEST = 10 * 365 * 86400.0, 2**57
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_DURATION = f"{_LONGEST / 3600:.0f}h"
_SIZE = re.compile(r"([0-9]{1,17}(?:\.[0-9]{1,12})?)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_BYTES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_duration(text: object) -> float:
    """Return the seconds of ``"500ms"``, ``"10s"``, ``"1m30s"``, ``"2h"``. Raises ValueError for
    anything else, a number without a unit included.
    """
    if isinstance(text, str):
        parts = list(_DURATION.finditer(text.strip()))
        if parts and "".join(m.group() for m in parts) == text.strip():
            seconds = sum(float(m[1]) * _SECONDS[m[2]] for m in parts)
            if seconds > _LONGEST:
                raise ValueError(f"{text!r} is longer than ten years")
            return seconds
    raise ValueError(
        f'{text!r} is not a duration; write it with its unit, like "10s", "2m" or "500ms"'
    )


def format_duration(seconds: float) -> str:
    """Return the shortest text that :func:`parse_duration` reads back, to the millisecond."""
    milliseconds = round(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_size(text: object) -> int:
    """Return the bytes of ``"256M"``, ``"2G"`` (binary multiples, as in my.cnf). Raises ValueError
    for anything else.
    """
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        raise ValueError(f'{text!r} is not a size; write it with its unit, like "256M" or "2G"')
    size = int(float(match[1]) * _BYTES[match[2].upper()])
    if size > _LARGEST:
        raise ValueError(f"{text!r} is more than any machine has")
    return size


def format_size(size: int) -> str:
    """Return the shortest exact text that :func:`parse_size` reads back."""
    for unit in "TGMK":
        if size % _BYTES[unit] == 0 and size:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size / _BYTES['K']}K"


# The sizes of huge pages for which Linux may have a switch of its own, on any architecture:
# Documentation/admin-guide/mm/transhuge.rst, "hugepages-<size>kB". The kernel has a few of them.
HUGE_PAGE_SIZES = tuple(format_size(2**exponent) for exponent in range(14, 30))


def parse_huge_page_size(text: str) -> str:
    """Return a size of huge pages as :data:`HUGE_PAGE_SIZES` has it, ``"1M"`` of ``"1024K"``.
    Raises ValueError for anything else.
    """
    try:
        size = format_size(parse_size(text))
    except ValueError:
        size = ""
    if size not in HUGE_PAGE_SIZES:
        raise ValueError(
            f"{text!r} is not a size of huge pages; they are powers of two from "
            f"{HUGE_PAGE_SIZES[0]} to {HUGE_PAGE_SIZES[-1]}"
        )
    return size
