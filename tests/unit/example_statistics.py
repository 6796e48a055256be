"""What allocators say of themselves."""

from typing import Any

MIB = 1 << 20


JEMALLOC: dict[str, Any] = {
    "format": 1,
    "malloc": "/usr/lib/libjemalloc.so.2",
    "allocator": "jemalloc",
    "version": "5.3.0-0-g54eaed1",
    "stats.allocated": 30 * MIB,
    "stats.active": 36 * MIB,
    "stats.metadata": 3 * MIB,
    "stats.resident": 50 * MIB,
    "stats.retained": 7 * MIB,
    "arenas.page": 4096,
    "arenas": [
        {
            "arena": 0,
            "pdirty": 256,
            "pmuzzy": 0,
            "tcache_bytes": MIB,
            "small.allocated": 9 * MIB,
            "large.allocated": 12 * MIB,
        },
        {
            "arena": 3,
            "pdirty": 256,
            "pmuzzy": 512,
            "tcache_bytes": MIB,
            "small.allocated": 9 * MIB,
            "large.allocated": 0,
        },
    ],
    "bins": [
        {"size": 512, "nregs": 8, "slab_size": 4096, "curregs": 7, "curslabs": 1},
        {"size": 1024, "nregs": 4, "slab_size": 4096, "curregs": 1024, "curslabs": 1024},
        {"size": 1280, "nregs": 16, "slab_size": 20480},
    ],
}


GPERFTOOLS = {
    "format": 1,
    "malloc": "/usr/lib/libtcmalloc_minimal.so.4",
    "allocator": "gperftools",
    "generic.current_allocated_bytes": 40 * MIB,
    "tcmalloc.pageheap_free_bytes": 2 * MIB,
    "tcmalloc.pageheap_unmapped_bytes": 5 * MIB,
    "tcmalloc.current_total_thread_cache_bytes": 3 * MIB,
    "tcmalloc.central_cache_free_bytes": 4 * MIB,
    "tcmalloc.transfer_cache_free_bytes": MIB,
    "report": "MALLOC: +      2883584 (    2.8 MiB) Bytes in malloc metadata\nMALLOC:   ------------\n",
}
