"""glibc's account: malloc_info(3). The walk from outside says more; this is what it is held
against.
"""

import re
from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_account import (
    HELD,
    LIVE_LARGE,
    LIVE_SMALL,
    Account,
    Holding,
    account,
)

_LAST_HEAP = "</heap>"
_TOTAL = re.compile(r'<total type="(fast|rest|mmap)" count="(\d{1,20})" size="(\d{1,20})"')
_SYSTEM = re.compile(r'<system type="current" size="(\d{1,20})"')


def read(said: Mapping[str, Any]) -> Account:
    """All arenas together. What threads' caches hold counts as live here."""
    text = said["malloc_info"]
    whole = text[text.rindex(_LAST_HEAP) :]
    totals = {name: int(size) for name, _, size in _TOTAL.findall(whole)}
    # A free chunk's size is added up with the flag in it that the chunk before is in use, but for
    # each arena's top.
    flags = sum(
        int(count) for name, count, _ in _TOTAL.findall(whole) if name == "rest"
    ) - text.count(_LAST_HEAP)
    system = _SYSTEM.search(whole)
    if system is None:
        raise ValueError("no system size")
    free = totals["rest"] - flags + totals.get("fast", 0)
    return account(
        "glibc",
        [
            Holding(LIVE_SMALL, int(system[1]) - free),
            Holding(LIVE_LARGE, totals["mmap"]),
            Holding(HELD, free),
        ],
    )
