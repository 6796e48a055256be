"""mimalloc's statistics. Its release builds count no blocks (MI_STAT is 0) and tell only how much
is committed.
"""

from collections.abc import Mapping
from typing import Any

from dballoc import readers
from dballoc.process_memory.heaps.allocator_statistics import (
    LIVE_ALL,
    AllocatorStatistics,
    Holding,
    make_statistics,
)


def parse_statistics(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return live blocks, if the build counts them."""
    notes = (
        [f"mimalloc has committed {answer['current_commit'] / 2**20:,.1f} MiB"]
        if "current_commit" in answer
        else []
    )
    live = _parse_live_bytes(answer.get("stats", ""))
    if live:
        return make_statistics("mimalloc", [Holding(LIVE_ALL, live)], notes=notes)
    return make_statistics(
        "mimalloc", [], notes=[*notes, "this build of mimalloc does not count what is live"]
    )


def _parse_live_bytes(stats: str) -> int:
    """Return the bytes in use, from mi_stats_get_json; 0 if it does not count them."""
    try:
        counters = readers.document(stats)
    except (readers.Unfit, TypeError):
        return 0
    if not isinstance(counters, dict):
        return 0
    parts = (counters.get(name) for name in ("malloc_normal", "malloc_huge"))
    return sum(int(part.get("current", 0)) for part in parts if isinstance(part, dict))
