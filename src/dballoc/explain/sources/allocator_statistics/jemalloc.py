"""jemalloc's statistics: mallctl's values, by the names of its manual (jemalloc(3))."""

from collections.abc import Mapping, Sequence
from typing import Any

from dballoc.process_memory.heaps.allocator_statistics import (
    CACHES,
    HELD,
    LAZY,
    LIVE_LARGE,
    LIVE_SMALL,
    METADATA,
    AllocatorStatistics,
    Holding,
    make_statistics,
)

_MIB = 2**20


def parse_statistics(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the sum of all arenas. Live blocks have their size class's size; jemalloc counts what
    threads cache as allocated, so it is subtracted here.
    """
    arenas: Sequence[Mapping[str, int]] = answer["arenas"]
    if "stats.allocated" not in answer:
        return make_statistics("jemalloc", [], notes=["this jemalloc was built without statistics"])

    def total(name: str) -> int:
        return sum(arena.get(name, 0) for arena in arenas)

    page = answer["arenas.page"]
    cached = total("tcache_bytes")
    # Before 5.0 the largest blocks were called huge.
    large = total("large.allocated") + total("huge.allocated")
    small = answer["stats.allocated"] - large - cached
    slack, dirty, muzzy = (
        answer["stats.active"] - answer["stats.allocated"],
        total("pdirty") * page,
        total("pmuzzy") * page,
    )
    held = (
        f"{slack / _MIB:.1f} MiB of pages in use, {dirty / _MIB:.1f} MiB "
        f"dirty{_describe_worst_bin(answer['bins'])}"
    )
    return make_statistics(
        "jemalloc",
        [
            Holding(LIVE_SMALL, small, f"{len(arenas)} arenas"),
            Holding(LIVE_LARGE, large),
            Holding(CACHES, cached),
            Holding(HELD, slack + dirty, held),
            Holding(LAZY, muzzy, "muzzy pages"),
            Holding(METADATA, answer["stats.metadata"]),
        ],
        answer.get("stats.retained", 0),
    )


def _describe_worst_bin(bins: Sequence[Mapping[str, int]]) -> str:
    """Name the size class that has the most free memory in its slabs."""
    free = {
        b["size"]: b["curslabs"] * b["slab_size"] - b["curregs"] * b["size"]
        for b in bins
        if "curslabs" in b
    }
    if not free or not (most := max(free.values())):
        return ""
    size = next(size for size, bytes_ in free.items() if bytes_ == most)
    return f"; most of one size: {most / _MIB:.1f} MiB in blocks of {size}"
