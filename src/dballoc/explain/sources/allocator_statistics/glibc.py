"""glibc's statistics: malloc_info(3). The walk of its heap from outside tells more and is checked
against these.
"""

import re
from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_statistics import (
    HELD,
    LIVE_LARGE,
    LIVE_SMALL,
    AllocatorStatistics,
    Holding,
    make_statistics,
)

_LAST_HEAP = "</heap>"
_TOTAL = re.compile(r'<total type="(fast|rest|mmap)" count="(\d{1,20})" size="(\d{1,20})"')
_SYSTEM = re.compile(r'<system type="current" size="(\d{1,20})"')


def parse_statistics(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the sum of all arenas. What threads' caches hold counts as live in it."""
    text = answer["malloc_info"]
    summary = text[text.rindex(_LAST_HEAP) :]
    totals = {name: int(size) for name, _, size in _TOTAL.findall(summary)}
    # glibc adds up the size of each free chunk with the flag bit (the chunk before it is in use)
    # set in it, except for each arena's top chunk.
    flags = sum(
        int(count) for name, count, _ in _TOTAL.findall(summary) if name == "rest"
    ) - text.count(_LAST_HEAP)
    system = _SYSTEM.search(summary)
    if system is None:
        raise ValueError("no system size")
    free = totals["rest"] - flags + totals.get("fast", 0)
    return make_statistics(
        "glibc",
        [
            Holding(LIVE_SMALL, int(system[1]) - free),
            Holding(LIVE_LARGE, totals["mmap"]),
            Holding(HELD, free),
        ],
    )
