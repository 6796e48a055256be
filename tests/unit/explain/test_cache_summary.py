"""What pt-summary and pt-mysql-summary show, and what InnoDB has beyond its pool."""

import os

import pytest
from example_server_memory import make_server_memory

from dballoc.evidence.sql.server_memory import LOGS, POOL, ServerMemory
from dballoc.explain.checklist.checklist import measure_innodb_beyond_pool
from dballoc.explain.checklist.host_summary import (
    ProcessesMemory,
    parse_meminfo,
    sum_rss,
    summarize_host_memory,
)
from dballoc.explain.checklist.server_summary import summarize_caches
from dballoc.explain.ledger.ledger import Ledger
from dballoc.explain.ledger.ledger_line import LedgerLine
from dballoc.process.mapping_kind import MappingKind

MIB = 1 << 20
VARIABLES = {
    "query_cache_type": "ON",
    "query_cache_size": str(16 * MIB),
    "innodb_version": "5.6.20",
    "innodb_buffer_pool_size": str(128 * MIB),
    "key_buffer_size": str(8 * MIB),
    "key_cache_block_size": "1024",
}
STATUS = {
    "qcache_free_memory": str(12 * MIB),
    "qcache_hits": "300",
    "qcache_inserts": "200",
    "innodb_buffer_pool_pages_total": "8192",
    "innodb_buffer_pool_pages_free": "6144",
    "innodb_buffer_pool_pages_dirty": "1024",
    "key_blocks_unused": "6554",
    "key_blocks_not_flushed": "819",
}


def test_caches_as_pt_mysql_summary_shows_them() -> None:
    rows = dict(summarize_caches(VARIABLES, STATUS).rows)
    assert rows["query cache: query_cache_type"] == "ON"
    assert rows["query cache: Size"] == 16 * MIB
    assert rows["query cache: Usage"] == "4,194,304 of 16,777,216 (25%)"
    assert rows["query cache: HitToInsertRatio"] == "300 ÷ 200 = 1.50"
    assert rows["InnoDB: Version"] == "5.6.20"
    assert rows["InnoDB: Buffer Pool Size"] == 128 * MIB
    assert rows["InnoDB: Buffer Pool Fill, pages"] == "2,048 of 8,192 (25%)"
    assert rows["InnoDB: Buffer Pool Dirty, pages"] == "1,024 of 8,192 (12%)"
    assert rows["key cache: Size"] == 8 * MIB
    assert rows["key cache: Usage, with what it needs for itself"].endswith("(20%)")  # type: ignore[union-attr]
    assert rows["key cache: Unflushed"].endswith("(10%)")  # type: ignore[union-attr]


def test_what_a_server_does_not_have() -> None:
    rows = dict(summarize_caches({"key_buffer_size": "0"}, {}).rows)
    assert rows == {
        "query cache": "this server has none",
        "InnoDB": "off, or not in this server",
    }
    rows = dict(summarize_caches({"query_cache_size": "0", "query_cache_type": "OFF"}, {}).rows)
    assert rows["query cache: Usage"] == "nothing"
    assert rows["query cache: HitToInsertRatio"] == "no inserts so far"


def test_memory_of_the_host_as_pt_summary_shows_it() -> None:
    meminfo = parse_meminfo(
        "MemTotal: 4096 kB\nMemFree: 1024 kB\nMemAvailable: 2560 kB\nBuffers: 256 kB\nCached: 1024 kB\n"
        "SReclaimable: 128 kB\nDirty: 8 kB\nSwapTotal: 2048 kB\nSwapFree: 1536 kB\nShmem: 16 kB\n"
    )
    found = summarize_host_memory(meminfo, ProcessesMemory(rss=3 * MIB, count=41))
    kilobytes = {name: int(size) // 1024 for name, size in found.rows if isinstance(size, int)}
    assert kilobytes == {
        "Total": 4096,
        "Free": 1024,
        "Used: physical (total less available)": 1536,
        "Used: swap allocated": 2048,
        "Used: swap used": 512,
        "Used: virtual (physical and swap used)": 2048,
        "Shared": 16,
        "Buffers": 256,
        "Caches (page cache and reclaimable slabs)": 1152,
        "Dirty": 8,
        "UsedRSS: RSS of 41 processes, shared pages in each": 3072,
    }


def test_used_without_memavailable_is_what_free_subtracted_then() -> None:
    meminfo = parse_meminfo("MemTotal: 100 kB\nMemFree: 20 kB\nBuffers: 5 kB\nCached: 15 kB\n")
    rows = dict(summarize_host_memory(meminfo, ProcessesMemory(0, 0, complete=False)).rows)
    assert rows["Used: physical (total less available)"] == 60 * 1024
    assert "UsedRSS: RSS of 0 processes, not all of them, shared pages in each" in rows


def test_the_rss_of_all_processes() -> None:
    found = sum_rss()
    own = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")  # noqa: SIM115
    assert found.count >= 2
    assert found.rss >= own // 2
    assert found.complete


def line(owner: str, resident: int, size: int | None = None) -> LedgerLine:
    return LedgerLine(
        group="server",
        owner=owner,
        resident=resident * MIB,
        size=(size if size is not None else resident) * MIB,
        source="made",
        confidence="exact",
    )


def ledger(*lines: LedgerLine) -> Ledger:
    return Ledger(
        pid=7,
        executable="mysqld",
        malloc="glibc",
        rss=1,
        lines=list(lines),
        rest=0,
        unowned=0,
        beside={},
        tiers=[],
    )


def labels(counted: bool, pool: int = 100) -> ServerMemory:
    return make_server_memory(
        version="8.0.33",
        variables={"innodb_buffer_pool_size": str(pool * MIB)},
        filled={POOL: 50 * MIB},
        counted={"memory/innodb/x": (1, 1)} if counted else {},
    )


def test_innodb_beyond_its_pool() -> None:
    made = ledger(
        line(POOL, 60, 104),
        line(LOGS, 2),
        line("InnoDB hash tables", 4),
        line("adaptive hash index", 1),
        line("memory/innodb", 1),
        line("memory/sql", 99),
        line("sessions", 99),
    )
    found = measure_innodb_beyond_pool(made, labels(counted=True))
    rows = {row[0]: row[1:] for row in found.rows}
    assert rows["filled of it"] == (50 * MIB, "50.0%")
    assert rows["descriptors of the pool's pages, mapped with it"] == (4 * MIB, "4.0%")
    assert rows["beyond the pool, in all"] == (12 * MIB, "12.0%")
    assert found.note is None


@pytest.mark.parametrize("mapped", [100, 8 << 20])
def test_a_reserved_mapping_has_no_descriptors(mapped: int) -> None:
    """MariaDB reserves address space for a pool that may grow."""
    found = measure_innodb_beyond_pool(ledger(line(POOL, 60, mapped)), labels(counted=True))
    assert found.rows[-1] == ("beyond the pool, in all", 0, "0.0%")


def test_what_the_sum_leaves_out_is_said() -> None:
    found = measure_innodb_beyond_pool(ledger(line(MappingKind.POOL, 60)), labels(counted=False))
    assert "the memory instruments are off" in str(found.note)
    assert "log buffers are not told from the pool" in str(found.note)
    assert measure_innodb_beyond_pool(ledger(), labels(True, pool=0)).missing
