"""Names for the kernel's addresses: from /proc/kallsyms (proc(5)), which shows addresses to root
alone.
"""

from bisect import bisect_right
from functools import cache
from pathlib import Path

_KALLSYMS = Path("/proc/kallsyms")
# Types of symbols that are code (nm(1)).
_CODE = frozenset("tTwW")


@cache
def _load() -> tuple[list[int], list[str]]:
    """Read the addresses, in order, and their names; none if we may not see them."""
    symbols = []
    try:
        with _KALLSYMS.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                address, kind, name = line.split(maxsplit=3)[:3]
                if kind in _CODE:
                    symbols.append((int(address, 16), name))
    except (OSError, ValueError):
        return [], []
    if not symbols or not symbols[-1][0]:
        return [], []
    symbols.sort()
    return [address for address, _ in symbols], [name for _, name in symbols]


def find_name(address: int) -> str | None:
    """Return the kernel's function at an address; None if that is not known."""
    addresses, names = _load()
    index = bisect_right(addresses, address) - 1
    return names[index] if index >= 0 else None
