"""Whose memory the server's own figures are: each byte with one owner."""

from typing import Any, cast

import pymysql

from dballoc.evidence.sql import server_memory
from dballoc.evidence.sql.server_memory import (
    DICTIONARY,
    LOGS,
    POOL,
    POOL_EVENT,
    SESSIONS,
    OwnerMemory,
    assign_to_owners,
    compute_filled_bytes,
    describe_biggest_sessions,
    total_by_user,
)

MIB = 1 << 20

COUNTED = {
    "memory/innodb/log_buffer_memory": (1, 16 * MIB),
    "memory/innodb/memory": (900, 9 * MIB),
    "memory/innodb/buf_buf_pool": (1, 128 * MIB),
    "memory/performance_schema/threads": (1, 3 * MIB),
    "memory/sql/thd::main_mem_root": (10, 4 * MIB),
    "memory/sql/dd::objects": (5000, MIB),
    "memory/temptable/physical_ram": (2, 2 * MIB),
    "memory/temptable/physical_disk": (2, 7 * MIB),
    "memory/mysys/KEY_CACHE": (3, 8 * MIB),
}


def test_each_byte_has_one_owner() -> None:
    found = {
        label.owner: label.bytes
        for label in assign_to_owners(COUNTED, {"memory/sql/thd::main_mem_root": 3 * MIB}, 0)
    }
    assert found == {
        LOGS: 16 * MIB,
        "memory/innodb": 9 * MIB,
        SESSIONS: 3 * MIB,
        "memory/sql": MIB,
        DICTIONARY: MIB,
        "temporary tables": 2 * MIB,
        "key cache (MyISAM)": 8 * MIB,
    }


def test_large_blocks_are_known_by_their_sizes() -> None:
    """A single one; one of a few, which may be all but the whole; InnoDB's buffers of links, as
    8.0.33 counts them.
    """
    links = {"memory/innodb/ut0link_buf": (2, 25165888), "memory/innodb/std": (2027, 499496)}
    sizes = {
        label.owner: label.sizes
        for label in assign_to_owners(COUNTED | links, {}, 0)
        if label.sizes
    }
    assert sizes == {
        LOGS: (16 * MIB,),
        "key cache (MyISAM)": (8 * MIB,),
        "temporary tables": (2 * MIB,),
        "memory/innodb": (16 * MIB, 8 * MIB),
    }


def test_what_the_caches_have_filled() -> None:
    status = {
        "innodb_buffer_pool_pages_total": "100",
        "innodb_buffer_pool_pages_free": "90",
        "key_blocks_used": "3",
    }
    variables = {
        "innodb_page_size": "16384",
        "key_cache_block_size": "1024",
        "aria_block_size": "8192",
    }
    found = compute_filled_bytes(variables, status, {})
    assert found == {POOL: 10 * 16384, "key cache (MyISAM)": 3072, "Aria page cache": 0}
    # MySQL counts what describes the pages with them.
    variables["innodb_buffer_pool_size"] = str(128 * MIB)
    assert (
        compute_filled_bytes(variables, status, {POOL_EVENT: (1, 131 * MIB)})[POOL]
        == 10 * 16384 + 3 * MIB
    )


def test_what_is_freed_elsewhere_makes_no_session_larger_than_its_event() -> None:
    sessions = {
        "memory/sql/thd::main_mem_root": 50 * MIB,
        "memory/innodb/memory": -5 * MIB,
        "memory/gone": MIB,
    }
    found = {label.owner: label.bytes for label in assign_to_owners(COUNTED, sessions, 0)}
    assert (found[SESSIONS], found["memory/sql"], found["memory/innodb"]) == (4 * MIB, 0, 9 * MIB)


def test_headers_that_no_instrument_counts() -> None:
    [headers] = [
        label for label in assign_to_owners(COUNTED, {}, 32) if label.owner.startswith("headers")
    ]
    # InnoDB counts its own, and what lies outside of malloc has none there.
    assert headers.bytes == 32 * (10 + 5000 + 2 + 3)


def test_a_dictionary_in_heaps_that_have_no_instrument_of_their_own() -> None:
    said = [OwnerMemory(owner=DICTIONARY, bytes=5 * MIB, source="status")]
    found = {label.owner: label.bytes for label in assign_to_owners(COUNTED, {}, 0, said)}
    assert (found[DICTIONARY], found["memory/innodb"]) == (5 * MIB, 5 * MIB)


def test_sessions_by_user_and_the_biggest() -> None:
    sessions = [("1", "app", MIB), ("2", "app", 5 * MIB), ("3", "dump", 4 * MIB), ("4", "None", 0)]
    assert total_by_user(sessions) == [("app", 2, 6 * MIB), ("dump", 1, 4 * MIB), ("None", 1, 0)]
    parts = describe_biggest_sessions(sessions)
    assert parts[0] == ("user app: 2 sessions", 6 * MIB)
    assert parts[3] == ("session 2 of app", 5 * MIB)
    assert describe_biggest_sessions(sessions[:1]) == (("user app: 1 sessions", MIB),)


class Answers:
    """A cursor that gives these rows, or refuses."""

    def __init__(self, *rows: tuple[str, str, str], refuses: bool = False) -> None:
        self.rows, self.refuses = rows, refuses

    def execute(self, _: str) -> None:
        if self.refuses:
            raise pymysql.Error(1227, "Access denied")

    def fetchall(self) -> tuple[tuple[str, str, str], ...]:
        return self.rows


def test_memtables_that_are_kept_after_they_were_flushed() -> None:
    """As MariaDB 11.8.6 says it."""
    text = "\nMemTable Total: 50854216\nMemTable Unflushed: 4096\nTable Readers Total: 392\nCache Total: 62571136\n"
    others = ("STATISTICS", "rocksdb", "MemTable Total: 7"), ("CF_COMPACTION", "default", "")
    for answers, size in (
        (Answers(*others, ("MEMORY_STATS", "rocksdb", text)), 50854216),
        (Answers(*others), 0),
        (Answers(refuses=True), 0),
    ):
        assert server_memory._query_memtables(cast(Any, answers)) == size
