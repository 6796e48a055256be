"""Summarize a server's variables and counters as far as they concern memory, as pt-mysql-summary
does. Pure.

The caches are those of pt-mysql-summary: query cache, InnoDB, key cache, and MariaDB's Aria. Its
figures (pt-mysql-summary, "OUTPUT"): usage is size less what is free; the hit-to-insert ratio is
Qcache_hits ÷ Qcache_inserts; dirty and filled pages are shares of all pages. Of the key cache, the
blocks that are not free and not flushed, times key_cache_block_size, are shares of its size.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from dballoc.evidence.sql.server_memory import is_number, parse_number
from dballoc.experiment.secret_names import hide_value
from dballoc.explain.checklist import section
from dballoc.explain.checklist.section import Bytes, Cell, ChecklistSection, format_share
from dballoc.explain.checklist.section_query import limit_cell

_DAY = 86_400
# Variables of these names and sizes are bytes.
_BYTES = (
    "*_size",
    "*_limit",
    "*mem_used",
    "*max_ram",
    "*max_mmap",
    "*_packet",
    "*_length",
    "*space_usage",
    "thread_stack",
)
_NUMBERS = (
    "*table_open*",
    "thread_cache_size",
    "thread_pool_size",
    "host_cache_size",
    "performance_schema_*",
    "*_shards",
    "*_time*",
)


def summarize_server(
    variables: Mapping[str, str], status: Mapping[str, str], catalogue: Mapping[str, Any]
) -> ChecklistSection:
    """Return the section of version, uptime and cache use. ``variables`` and ``status``: by name in
    lower case.
    """
    up = parse_number(status, "uptime")
    cells: list[tuple[str, Cell]] = [
        (name, hide_value(name, variables.get(name, "")) or None)
        for name in catalogue["server"]["names"]
    ]
    cells.append(("up for", f"{up // _DAY} d {up % _DAY // 3600} h {up % 3600 // 60} min"))
    connections, most = (
        parse_number(status, "threads_connected"),
        parse_number(variables, "max_connections"),
    )
    cells += [
        (
            "connections",
            f"{connections} of {most}, {status.get('max_used_connections', '?')} at most so far",
        ),
        (
            "table cache in use",
            format_share(
                parse_number(status, "open_tables"), parse_number(variables, "table_open_cache")
            ),
        ),
        (
            "definition cache in use",
            format_share(
                parse_number(status, "open_table_definitions"),
                parse_number(variables, "table_definition_cache"),
            ),
        ),
        (
            "buffer pool in use",
            format_share(
                _count_pages(status, "total") - _count_pages(status, "free"),
                _count_pages(status, "total"),
            ),
        ),
        ("key cache in use, at most so far", _format_key_cache(variables, status)),
        (
            "temporary tables on disk",
            format_share(
                parse_number(status, "created_tmp_disk_tables"),
                parse_number(status, "created_tmp_tables"),
            ),
        ),
    ]
    return section.build_facts("server", "SHOW GLOBAL VARIABLES, SHOW GLOBAL STATUS", cells)


def list_memory_variables(
    variables: Mapping[str, str], catalogue: Mapping[str, Any]
) -> ChecklistSection:
    """Return the section of the variables that concern memory, and those that one would look for
    in vain.
    """
    included, excluded = catalogue["variables"]["names"], catalogue["variables"]["not"]
    rows = [
        (name, _parse_value(name, value))
        for name, value in sorted(variables.items())
        if _matches(name, included) and not _matches(name, excluded)
    ]
    rows += [(name, why) for name, why in catalogue["absent"].items() if name not in variables]
    return section.build_facts("variables", "SHOW GLOBAL VARIABLES", rows)


def list_counters(status: Mapping[str, str], catalogue: Mapping[str, Any]) -> ChecklistSection:
    """Return the section of the main counters, in total and per second since the start."""
    up = max(1, parse_number(status, "uptime"))
    rows: list[tuple[Cell, ...]] = []
    for name in catalogue["counters"]["names"]:
        value = status.get(name.lower(), "")
        if not is_number(value.lstrip("-")):
            continue
        rate = None if _matches(name, catalogue["counters"]["now"]) else round(int(value) / up, 2)
        rows.append(
            (
                name,
                Bytes(value) if _matches(name, catalogue["counters"]["bytes"]) else int(value),
                rate,
            )
        )
    return ChecklistSection(
        title="counters",
        source="SHOW GLOBAL STATUS",
        columns=("counter", "value", "per second since the start"),
        rows=rows,
    )


def _matches(name: str, patterns: list[str] | tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _parse_value(name: str, value: str) -> Cell:
    if (shown := hide_value(name, value)) != value or not is_number(value):
        return limit_cell(shown)
    return (
        Bytes(value)
        if _matches(name, _BYTES) and not _matches(name, _NUMBERS) and int(value) >= 1024
        else int(value)
    )


def _count_pages(status: Mapping[str, str], kind: str) -> int:
    return parse_number(status, f"innodb_buffer_pool_pages_{kind}")


def _format_key_cache(variables: Mapping[str, str], status: Mapping[str, str]) -> str | None:
    """Return how much of MyISAM's configured key cache has been in use at once: key_blocks_used
    never falls.
    """
    size, block = (
        parse_number(variables, "key_buffer_size"),
        parse_number(variables, "key_cache_block_size"),
    )
    return format_share(parse_number(status, "key_blocks_used") * block, size) if block else None


TITLE = "caches, as pt-mysql-summary shows them"


def summarize_caches(variables: Mapping[str, str], status: Mapping[str, str]) -> ChecklistSection:
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
