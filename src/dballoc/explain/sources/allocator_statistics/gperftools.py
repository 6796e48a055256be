"""tcmalloc's account, gperftools' and Google's: the properties of their MallocExtension."""

import re
from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_account import (
    CACHES,
    HELD,
    LIVE_ALL,
    OWN,
    Account,
    Holding,
    account,
)

_MIB = 2**20
_METADATA = re.compile(r"(\d{1,20}) \([^)]*\) Bytes in malloc metadata")
_LIVE, _PAGES, _UNMAPPED = (
    "generic.current_allocated_bytes",
    "tcmalloc.pageheap_free_bytes",
    "tcmalloc.pageheap_unmapped_bytes",
)


def read(said: Mapping[str, Any]) -> Account:
    """Of gperftools. Live blocks are counted by their size classes, rounding included."""
    lists = said["tcmalloc.central_cache_free_bytes"] + said["tcmalloc.transfer_cache_free_bytes"]
    metadata = _METADATA.search(said.get("report", ""))
    return _account(
        "gperftools",
        said,
        said["tcmalloc.current_total_thread_cache_bytes"],
        lists,
        int(metadata[1]) if metadata else 0,
    )


def read_google(said: Mapping[str, Any]) -> Account:
    """Of Google's, whose caches belong to CPUs or to threads."""
    lists = sum(
        said.get(f"tcmalloc.{name}_cache_free", 0)
        for name in ("central", "transfer", "sharded_transfer")
    )
    caches = said.get("tcmalloc.cpu_free", 0) + said.get("tcmalloc.thread_cache_free", 0)
    return _account("Google TCMalloc", said, caches, lists, said.get("tcmalloc.metadata_bytes", 0))


def _account(name: str, said: Mapping[str, Any], caches: int, lists: int, metadata: int) -> Account:
    pages = said[_PAGES]
    held = f"{lists / _MIB:.1f} MiB in central lists, {pages / _MIB:.1f} MiB in whole pages"
    return account(
        name,
        [
            Holding(LIVE_ALL, said[_LIVE]),
            Holding(CACHES, caches),
            Holding(HELD, lists + pages, held),
            Holding(OWN, metadata),
        ],
        said[_UNMAPPED],
    )
