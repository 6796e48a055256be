"""mimalloc's account. Its release builds count no blocks (MI_STAT is 0): then it tells what it has
committed, no more.
"""

from collections.abc import Mapping
from typing import Any

from dballoc import readers
from dballoc.process_memory.heaps.allocator_account import LIVE_ALL, Account, Holding, account


def read(said: Mapping[str, Any]) -> Account:
    """Live blocks only where the build counts them."""
    notes = (
        [f"mimalloc has committed {said['current_commit'] / 2**20:,.1f} MiB"]
        if "current_commit" in said
        else []
    )
    live = _live(said.get("stats", ""))
    if live:
        return account("mimalloc", [Holding(LIVE_ALL, live)], notes=notes)
    return account(
        "mimalloc", [], notes=[*notes, "this build of mimalloc does not count what is live"]
    )


def _live(stats: str) -> int:
    """Bytes in use, from mi_stats_get_json; 0 if it does not count them."""
    try:
        found = readers.document(stats)
    except (readers.Unfit, TypeError):
        return 0
    if not isinstance(found, dict):
        return 0
    parts = (found.get(name) for name in ("malloc_normal", "malloc_huge"))
    return sum(int(part.get("current", 0)) for part in parts if isinstance(part, dict))
