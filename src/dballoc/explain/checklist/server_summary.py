"""A server's variables and counters as they bear on memory, as pt-mysql-summary gives them.
Pure.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from dballoc.experiment.secret_names import hide
from dballoc.explain.checklist import section
from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.explain.sources.server_memory import number

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


def summary(
    variables: Mapping[str, str], status: Mapping[str, str], catalogue: Mapping[str, Any]
) -> Section:
    """Version, age, caches in use. ``variables`` and ``status``: by name in lower case."""
    up = number(status, "uptime")
    cells: list[tuple[str, Cell]] = [
        (name, hide(name, variables.get(name, "")) or None) for name in catalogue["server"]["names"]
    ]
    cells.append(("up for", f"{up // _DAY} d {up % _DAY // 3600} h {up % 3600 // 60} min"))
    connections, most = number(status, "threads_connected"), number(variables, "max_connections")
    cells += [
        (
            "connections",
            f"{connections} of {most}, {status.get('max_used_connections', '?')} at most so far",
        ),
        (
            "table cache in use",
            _share(number(status, "open_tables"), number(variables, "table_open_cache")),
        ),
        (
            "definition cache in use",
            _share(
                number(status, "open_table_definitions"),
                number(variables, "table_definition_cache"),
            ),
        ),
        (
            "buffer pool in use",
            _share(_pages(status, "total") - _pages(status, "free"), _pages(status, "total")),
        ),
        ("key cache in use", _key_cache(variables, status)),
        ("query cache in use", _query_cache(variables, status)),
        (
            "temporary tables on disk",
            _share(number(status, "created_tmp_disk_tables"), number(status, "created_tmp_tables")),
        ),
    ]
    return section.facts("server", "SHOW GLOBAL VARIABLES, SHOW GLOBAL STATUS", cells)


def settings(variables: Mapping[str, str], catalogue: Mapping[str, Any]) -> Section:
    """The variables that have to do with memory."""
    wanted, without = catalogue["variables"]["names"], catalogue["variables"]["not"]
    rows = [
        (name, _value(name, value))
        for name, value in sorted(variables.items())
        if _any(name, wanted) and not _any(name, without)
    ]
    return section.facts("variables", "SHOW GLOBAL VARIABLES", rows)


def counters(status: Mapping[str, str], catalogue: Mapping[str, Any]) -> Section:
    """The counters of note, whole and per second since the start."""
    up = max(1, number(status, "uptime"))
    rows: list[tuple[Cell, ...]] = []
    for name in catalogue["counters"]["names"]:
        value = status.get(name.lower(), "")
        if not value.lstrip("-").isdigit():
            continue
        rate = None if _any(name, catalogue["counters"]["now"]) else round(int(value) / up, 2)
        rows.append(
            (name, Bytes(value) if _any(name, catalogue["counters"]["bytes"]) else int(value), rate)
        )
    return Section(
        title="counters",
        source="SHOW GLOBAL STATUS",
        columns=("counter", "value", "per second since the start"),
        rows=rows,
    )


def _any(name: str, patterns: list[str] | tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _value(name: str, value: str) -> Cell:
    if (shown := hide(name, value)) != value or not value.isdigit():
        return shown
    return (
        Bytes(value)
        if _any(name, _BYTES) and not _any(name, _NUMBERS) and int(value) >= 1024
        else int(value)
    )


def _share(part: int, whole: int) -> str | None:
    return f"{part:,} of {whole:,} ({part / whole:.0%})" if whole else None


def _pages(status: Mapping[str, str], which: str) -> int:
    return number(status, f"innodb_buffer_pool_pages_{which}")


def _key_cache(variables: Mapping[str, str], status: Mapping[str, str]) -> str | None:
    """MyISAM's: what is in use now, of the size that was asked for."""
    size, block = number(variables, "key_buffer_size"), number(variables, "key_cache_block_size")
    return _share(number(status, "key_blocks_used") * block, size) if block else None


def _query_cache(variables: Mapping[str, str], status: Mapping[str, str]) -> str | None:
    size = number(variables, "query_cache_size")
    return _share(max(0, size - number(status, "qcache_free_memory")), size)
