"""tcmalloc's statistics, gperftools' and Google's: the properties of their MallocExtension."""

import re
from collections.abc import Mapping
from typing import Any

from dballoc.process_memory.heaps.allocator_statistics import (
    CACHES,
    HELD,
    LIVE_ALL,
    METADATA,
    AllocatorStatistics,
    Holding,
    make_statistics,
)

_MIB = 2**20
_METADATA = re.compile(r"(\d{1,20}) \([^)]*\) Bytes in malloc metadata")
_LIVE, _PAGES, _UNMAPPED = (
    "generic.current_allocated_bytes",
    "tcmalloc.pageheap_free_bytes",
    "tcmalloc.pageheap_unmapped_bytes",
)


def parse_statistics(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the statistics of gperftools' tcmalloc. Live blocks have their size class's size."""
    metadata = _METADATA.search(answer.get("report", ""))
    return _build_account(
        "gperftools",
        answer,
        caches=answer["tcmalloc.current_total_thread_cache_bytes"],
        lists=answer["tcmalloc.central_cache_free_bytes"]
        + answer["tcmalloc.transfer_cache_free_bytes"],
        metadata=int(metadata[1]) if metadata else 0,
    )


def parse_google_statistics(answer: Mapping[str, Any]) -> AllocatorStatistics:
    """Return the statistics of Google's tcmalloc, whose caches belong to CPUs or to threads."""
    lists = sum(
        answer.get(f"tcmalloc.{name}_cache_free", 0)
        for name in ("central", "transfer", "sharded_transfer")
    )
    return _build_account(
        "Google TCMalloc",
        answer,
        caches=answer.get("tcmalloc.cpu_free", 0) + answer.get("tcmalloc.thread_cache_free", 0),
        lists=lists,
        metadata=answer.get("tcmalloc.metadata_bytes", 0),
    )


def _build_account(
    name: str, answer: Mapping[str, Any], *, caches: int, lists: int, metadata: int
) -> AllocatorStatistics:
    pages = answer[_PAGES]
    held = f"{lists / _MIB:.1f} MiB in central lists, {pages / _MIB:.1f} MiB in whole pages"
    return make_statistics(
        name,
        [
            Holding(LIVE_ALL, answer[_LIVE]),
            Holding(CACHES, caches),
            Holding(HELD, lists + pages, held),
            Holding(METADATA, metadata),
        ],
        answer[_UNMAPPED],
    )
