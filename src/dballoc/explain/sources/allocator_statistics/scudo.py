"""scudo's statistics: the blocks in use, and those in its free lists and threads' caches, which it
counts together.
"""

from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_statistics import (
    HELD,
    LIVE_ALL,
    AllocatorStatistics,
    Holding,
    make_statistics,
)


def parse_statistics(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return its counts. Live blocks have their size class's size."""
    notes = []
    if "modulo" in answer:
        notes.append(
            f"this scudo counts in 32 bits: the live bytes may be {answer['modulo'] >> 30} GiB "
            "more, or a multiple of that"
        )
    holdings = [
        Holding(LIVE_ALL, answer["allocated"]),
        Holding(HELD, answer["free"], "threads' caches included"),
    ]
    return make_statistics("scudo", holdings, notes=notes)
