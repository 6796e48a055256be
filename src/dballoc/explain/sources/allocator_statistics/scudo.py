"""scudo's account: the blocks in use, and those in its free lists and threads' caches, which it
counts together.
"""

from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_account import HELD, LIVE_ALL, Account, Holding, account


def read(said: Mapping[str, Any]) -> Account:
    """Live blocks are counted by their size classes, rounding included."""
    notes = []
    if "modulo" in said:
        notes.append(
            f"this scudo counts in 32 bits: what it says is live may be {said['modulo'] >> 30} GiB "
            "more, or a multiple"
        )
    holdings = [
        Holding(LIVE_ALL, said["allocated"]),
        Holding(HELD, said["free"], "threads' caches included"),
    ]
    return account("scudo", holdings, notes=notes)
