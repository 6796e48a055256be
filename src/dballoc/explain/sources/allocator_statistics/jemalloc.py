"""jemalloc's account: mallctl's statistics, by the names of its manual (jemalloc(3))."""

from collections.abc import Mapping, Sequence
from typing import Any

from dballoc.process_memory.heaps.allocator_account import (
    CACHES,
    HELD,
    LAZY,
    LIVE_LARGE,
    LIVE_SMALL,
    OWN,
    Account,
    Holding,
    account,
)

_MIB = 2**20


def read(said: Mapping[str, Any]) -> Account:
    """Live blocks are counted by their size classes, rounding included. What threads cache counts
    as allocated there.
    """
    arenas: Sequence[Mapping[str, int]] = said["arenas"]
    if "stats.allocated" not in said:
        return account("jemalloc", [], notes=["this jemalloc was built without statistics"])

    def total(name: str) -> int:
        return sum(arena.get(name, 0) for arena in arenas)

    page = said["arenas.page"]
    cached = total("tcache_bytes")
    # Before 5.0 the largest blocks were called huge.
    large = total("large.allocated") + total("huge.allocated")
    small = said["stats.allocated"] - large - cached
    slack, dirty, muzzy = (
        said["stats.active"] - said["stats.allocated"],
        total("pdirty") * page,
        total("pmuzzy") * page,
    )
    held = (
        f"{slack / _MIB:.1f} MiB of pages in use, {dirty / _MIB:.1f} MiB "
        f"dirty{_worst(said['bins'])}"
    )
    return account(
        "jemalloc",
        [
            Holding(LIVE_SMALL, small, f"{len(arenas)} arenas"),
            Holding(LIVE_LARGE, large),
            Holding(CACHES, cached),
            Holding(HELD, slack + dirty, held),
            Holding(LAZY, muzzy, "muzzy pages"),
            Holding(OWN, said["stats.metadata"]),
        ],
        said.get("stats.retained", 0),
    )


def _worst(bins: Sequence[Mapping[str, int]]) -> str:
    """The size class that has the most free memory in its slabs."""
    free = {
        b["size"]: b["curslabs"] * b["slab_size"] - b["curregs"] * b["size"]
        for b in bins
        if "curslabs" in b
    }
    if not free or not (most := max(free.values())):
        return ""
    size = next(size for size, bytes_ in free.items() if bytes_ == most)
    return f"; most of one size: {most / _MIB:.1f} MiB in blocks of {size}"
