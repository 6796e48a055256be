"""Summarize a server's caches as pt-mysql-summary of the Percona Toolkit does: query cache, InnoDB,
key cache, and MariaDB's Aria. Pure.

Its figures (pt-mysql-summary, "OUTPUT"): usage is size less what is free; the hit-to-insert ratio
is Qcache_hits ÷ Qcache_inserts; dirty and filled pages are shares of all pages; of the key cache,
the blocks that are not free and not flushed, times key_cache_block_size, are shares of its size.
"""

from collections.abc import Mapping

from dballoc.explain.checklist import section
from dballoc.explain.checklist.section import Bytes, Cell, Section, format_share
from dballoc.explain.sources.server_memory import parse_number

TITLE = "caches, as pt-mysql-summary shows them"


def summarize_caches(variables: Mapping[str, str], status: Mapping[str, str]) -> Section:
    """Return the section. ``variables`` and ``status``: by name in lower case."""
    return section.build_facts(
        TITLE,
        "SHOW GLOBAL VARIABLES, SHOW GLOBAL STATUS",
        [
            *_list_query_cache(variables, status),
            *_list_innodb(variables, status),
            *_list_block_cache(
                "key cache",
                parse_number(variables, "key_buffer_size"),
                parse_number(variables, "key_cache_block_size"),
                status,
                "key_blocks",
            ),
            *_list_block_cache(
                "Aria page cache",
                parse_number(variables, "aria_pagecache_buffer_size"),
                parse_number(variables, "aria_block_size"),
                status,
                "aria_pagecache_blocks",
            ),
        ],
    )


def _list_query_cache(
    variables: Mapping[str, str], status: Mapping[str, str]
) -> list[tuple[str, Cell]]:
    if "query_cache_size" not in variables:
        return [("query cache", "this server has none")]
    size = parse_number(variables, "query_cache_size")
    used = max(0, size - parse_number(status, "qcache_free_memory"))
    hits, inserts = parse_number(status, "qcache_hits"), parse_number(status, "qcache_inserts")
    return [
        ("query cache: query_cache_type", variables.get("query_cache_type")),
        ("query cache: Size", Bytes(size)),
        ("query cache: Usage", format_share(used, size) or "nothing"),
        (
            "query cache: HitToInsertRatio",
            f"{hits:,} ÷ {inserts:,} = {hits / inserts:.2f}" if inserts else "no inserts so far",
        ),
    ]


def _list_innodb(variables: Mapping[str, str], status: Mapping[str, str]) -> list[tuple[str, Cell]]:
    size = parse_number(variables, "innodb_buffer_pool_size")
    if not size:
        return [("InnoDB", "off, or not in this server")]
    pages = {
        kind: parse_number(status, f"innodb_buffer_pool_pages_{kind}")
        for kind in ("total", "free", "dirty")
    }
    return [
        ("InnoDB: Version", variables.get("innodb_version", "the server's: it reports no other")),
        ("InnoDB: Buffer Pool Size", Bytes(size)),
        (
            "InnoDB: Buffer Pool Fill, pages",
            format_share(max(0, pages["total"] - pages["free"]), pages["total"]),
        ),
        ("InnoDB: Buffer Pool Dirty, pages", format_share(pages["dirty"], pages["total"])),
    ]


def _list_block_cache(
    name: str, size: int, block: int, status: Mapping[str, str], blocks: str
) -> list[tuple[str, Cell]]:
    """List a cache of ``block`` bytes each. ``blocks``: how its counters begin. What it needs for
    itself counts as used, so an empty one is not at 0.
    """
    if not size or not block:
        return []
    unused = parse_number(status, f"{blocks}_unused") * block
    unflushed = parse_number(status, f"{blocks}_not_flushed") * block
    return [
        (f"{name}: Size", Bytes(size)),
        (
            f"{name}: Usage, with what it needs for itself",
            format_share(max(0, size - unused), size),
        ),
        (f"{name}: Unflushed", format_share(unflushed, size)),
    ]
