"""The sections of the checklist, from a simulated server."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pymysql
import pytest
from example_server_memory import make_server_memory

from dballoc import catalogue
from dballoc.explain.checklist import checklist
from dballoc.explain.checklist.host_summary import describe_host, parse_meminfo
from dballoc.explain.checklist.memory_events import EventFilter, explain_no_rows
from dballoc.explain.checklist.section import Bytes, ChecklistSection
from dballoc.explain.checklist.server_summary import (
    list_counters,
    list_memory_variables,
    summarize_server,
)

MIB = 1 << 20
EVERY_EVENT = EventFilter()
VARIABLES = {
    "version": "10.11.19-MariaDB",
    "innodb_buffer_pool_size": str(64 * MIB),
    "max_connections": "151",
    "have_query_cache": "YES",
    "innodb_page_size": "16384",
    "table_open_cache": "2000",
    "sort_buffer_size": str(2 * MIB),
    "performance_schema": "ON",
    "wait_timeout": "28800",
    "key_buffer_size": str(8 * MIB),
    "key_cache_block_size": "1024",
    "query_cache_size": str(MIB),
}
STATUS = {
    "uptime": "3660",
    "questions": "7320",
    "threads_connected": "3",
    "max_used_connections": "9",
    "open_tables": "500",
    "memory_used": str(90 * MIB),
    "innodb_buffer_pool_pages_total": "4096",
    "innodb_buffer_pool_pages_free": "1024",
    "key_blocks_used": "1024",
    "qcache_free_memory": str(MIB // 2),
    "created_tmp_tables": "0",
}
LABELS = make_server_memory(version=VARIABLES["version"], variables=VARIABLES, status=STATUS)


class Cursor:
    """Answers by what a statement begins with; refuses the rest as a server does."""

    def __init__(self, answers: dict[str, Sequence[tuple]], lost: bool = False) -> None:
        self.answers, self.lost, self.asked = answers, lost, []
        self.rows: Sequence[tuple] = []

    def execute(self, sql: str, values: Sequence[str] = ()) -> None:
        self.asked.append(sql % tuple(map(repr, values)) if values else sql)
        if self.lost:
            raise pymysql.err.OperationalError(2013, "Lost connection to server during query")
        found = [rows for words, rows in self.answers.items() if words in self.asked[-1]]
        if not found:
            raise pymysql.err.ProgrammingError(1146, "Table doesn't exist")
        self.rows = found[0]

    def fetchall(self) -> Sequence[tuple]:
        return self.rows


def asked(
    cursor: Any, variables: dict[str, str] = VARIABLES, events: EventFilter = EVERY_EVENT
) -> dict[str, ChecklistSection]:
    said = make_server_memory(version=VARIABLES["version"], variables=variables, status=STATUS)
    parts = checklist.query_server_sections(cursor, said, events)
    return {part.title: part for part in parts}


def test_a_server_that_refuses_everything_says_so_in_every_section() -> None:
    parts = asked(Cursor({}))
    refused = {title for title, part in parts.items() if part.missing}
    assert refused == set(parts) - {
        "server",
        "variables",
        "counters",
        "buffers of a session",
        "caches, as pt-mysql-summary shows them",
    }
    assert all(part.source for part in parts.values())
    assert all("\n" not in str(part.missing) for part in parts.values())


def test_the_five_summaries() -> None:
    events = {
        "SUM_NUMBER_OF_BYTES_ALLOC": [JOIN_CACHE],
        "memory_summary_global": [("memory/sql/TABLE", 3, 900, 1000)],
        "memory_summary_by_account": [("app", "localhost", "memory/sql/TABLE", 2, 800, 900)],
        "memory_summary_by_host": [("localhost", "memory/sql/TABLE", 2, 800, 900)],
        "memory_summary_by_user": [("app", "memory/sql/TABLE", 2, 800, 900)],
    }
    parts = asked(Cursor({k: v for k, v in events.items() if v} | {"memory_summary_by_thread": []}))
    assert parts["performance_schema: memory global"].rows == [("memory/sql/TABLE", 3, 900, 1000)]
    assert parts["performance_schema: memory by account"].columns == (
        "user",
        "host",
        "event",
        "blocks",
        "bytes",
        "most bytes",
    )
    assert isinstance(parts["performance_schema: memory by user"].rows[0][-1], Bytes)
    assert "for the next start: performance_schema = ON" in str(
        parts["performance_schema: memory by thread"].missing
    )


def test_without_performance_schema_nothing_of_it_is_asked() -> None:
    cursor = Cursor({})
    parts = asked(cursor, VARIABLES | {"performance_schema": "OFF"})
    assert "performance_schema is off; for the next start" in str(
        parts["performance_schema: memory by host"].missing
    )
    assert not [sql for sql in cursor.asked if "performance_schema." in sql]
    assert "this version has no performance_schema" in str(
        asked(cursor, {k: v for k, v in VARIABLES.items() if k != "performance_schema"})[
            "performance_schema: memory global"
        ].missing
    )


def test_sessions_of_an_older_version() -> None:
    rows = [(7, "app", "Query", 3, "sending", 5 * MIB)]
    cursor = Cursor({"STATE, MEMORY_USED FROM": rows})
    found = asked(cursor)["sessions"]
    assert found.columns == ("session", "user", "command", "seconds", "state", "bytes")
    assert found.rows == rows


FREED = "performance_schema: allocated and freed again, by account"
NARROWED = "performance_schema: allocated and freed, by account"
# The row of the Percona ebook, chapter 4.
JOIN_CACHE = (
    "root",
    "localhost",
    "memory/sql/JOIN_CACHE",
    2,
    2,
    524288,
    524288,
    0,
    0,
    1,
    0,
    0,
    262144,
)


def test_what_was_allocated_and_is_freed_again() -> None:
    cursor = Cursor({"SUM_NUMBER_OF_BYTES_ALLOC > 0": [JOIN_CACHE]})
    found = asked(cursor)[FREED]
    row = dict(zip(found.columns, found.rows[0], strict=True))
    assert (row["COUNT_ALLOC"], row["COUNT_FREE"], row["HIGH_COUNT_USED"]) == (2, 2, 1)
    assert row["SUM_NUMBER_OF_BYTES_FREE"] == 524288
    assert isinstance(row["HIGH_NUMBER_OF_BYTES_USED"], Bytes)
    assert not isinstance(row["LOW_COUNT_USED"], Bytes)
    assert "AND CURRENT_NUMBER_OF_BYTES_USED = 0 AND USER IS NOT NULL ORDER BY" in found.source


def test_one_event_of_one_account() -> None:
    cursor = Cursor({"SUM_NUMBER_OF_BYTES_ALLOC > 0": [JOIN_CACHE]})
    wanted = EventFilter("memory/sql/JOIN_CACHE", "ro'ot@localhost")
    found = asked(cursor, events=wanted)[NARROWED]
    assert found.rows[0][:3] == JOIN_CACHE[:3]
    # What is in use is shown too, and the name's underscore is no wildcard.
    assert "CURRENT_NUMBER_OF_BYTES_USED = 0" not in found.source
    assert "EVENT_NAME LIKE 'memory/sql/JOIN|_CACHE' ESCAPE '|'" in found.source
    assert "AND USER = 'ro\\'ot' AND HOST = 'localhost'" in found.source
    assert any('USER = "ro\'ot"' in sql for sql in cursor.asked)


def test_an_account_is_a_user_with_or_without_a_host() -> None:
    assert EventFilter(None, "app").conditions == (" AND USER = %s", ["app"])
    assert EventFilter(None, "a@b@c").conditions == (
        " AND USER = %s AND HOST = %s",
        ["a@b", "c"],
    )
    assert EventFilter().conditions == ("", [])


@pytest.mark.parametrize(
    ("event", "account", "on", "says"),
    [
        ("memory/sql/JOIN_CACH", None, True, "(did you mean memory/sql/JOIN_CACHE?)"),
        ("memory/sql/JOIN%", None, False, "performance_schema_instrument = 'memory/sql/JOIN_CACHE=ON'"),
        ("memory/sql/JOIN_CACHE", "app", True, "no allocation of account app has been counted"),
        (None, "app", False, "no memory instrument is on; for the next start"),
        (None, None, True, "nothing that was counted has been freed completely"),
    ],
)  # fmt: skip
def test_why_there_is_no_row(event: str | None, account: str | None, on: bool, says: str) -> None:
    instruments = {"memory/sql/JOIN_CACHE": on, "memory/sql/THD::main_mem_root": on}
    assert says in explain_no_rows(instruments, EventFilter(event, account))


def test_the_instruments_are_asked_when_there_is_no_row() -> None:
    answers = {
        "SUM_NUMBER_OF_BYTES_ALLOC > 0": [],
        "setup_instruments": [("memory/sql/JOIN_CACHE", "YES")],
    }
    found = asked(Cursor(answers), events=EventFilter("memory/sql/JOIN_CACH"))[NARROWED]
    assert "did you mean memory/sql/JOIN_CACHE?" in str(found.missing)


def test_a_server_without_the_tables_is_told_which_have_them() -> None:
    missing = asked(Cursor({}))[FREED].missing
    assert missing == "Table doesn't exist; MySQL has it from 5.7.2 on, MariaDB from 10.5.2"


def test_a_server_that_sends_no_numbers_or_too_many_rows() -> None:
    rows = [(*JOIN_CACHE[:3], *["x" * 1000] * 10)]
    with pytest.raises(ValueError, match="could not convert"):
        asked(Cursor({"SUM_NUMBER_OF_BYTES_ALLOC > 0": rows}))
    with pytest.raises(ValueError, match="64 bits"):
        asked(Cursor({"PLUGINS": [("p", "ENGINE", "1", 10**400)]}))
    flood = Cursor({"PLUGINS": [("p" * 100_000, "ENGINE", "1", None)] * 100_000})
    found = asked(flood)["plugins and engines"]
    assert len(found.rows) <= 2000
    assert len(str(found.rows[0][0])) <= 301


MYSQL = {**VARIABLES, "version": "8.0.33", "read_buffer_size": "131072"}


def test_sessions_with_buffers_of_their_own() -> None:
    rows = [("sort_buffer_size", str(64 * MIB), "app", 7), ("sort_buffer_size", "DEFAULT", None, 1)]
    cursor = Cursor({"variables_by_thread": rows})
    said = replace(LABELS, version="8.0.33", variables=MYSQL)
    parts = {s.title: s for s in checklist.query_server_sections(cursor, said, EventFilter())}  # type: ignore[arg-type]
    found = parts["buffers of a session"]
    assert found.rows == [
        ("read_buffer_size", 131072, 0, None, None),
        ("sort_buffer_size", 2 * MIB, 7, 64 * MIB, "app"),
        ("sort_buffer_size", 2 * MIB, 1, "DEFAULT", None),
    ]
    assert isinstance(found.rows[1][3], Bytes)
    assert found.note is None


def test_mariadb_says_that_it_does_not_show_other_sessions() -> None:
    cursor = Cursor({})
    found = asked(cursor)["buffers of a session"]
    assert found.rows == [("sort_buffer_size", 2 * MIB, None, None, None)]
    assert "MariaDB does not show the variables of other sessions" in str(found.note)
    assert not [sql for sql in cursor.asked if "variables_by_thread" in sql]


def test_a_lost_connection_is_not_a_section() -> None:
    with pytest.raises(pymysql.err.OperationalError):
        checklist.query_server_sections(Cursor({}, lost=True), LABELS, EventFilter())  # type: ignore[arg-type]


def test_statements_only_read() -> None:
    cursor = Cursor({})
    asked(cursor)
    assert cursor.asked
    assert all(sql.startswith(("SELECT ", "SHOW ")) for sql in cursor.asked)


def test_the_server_in_short() -> None:
    rows = dict(summarize_server(VARIABLES, STATUS, catalogue.procedure()).rows)
    assert rows["up for"] == "0 d 1 h 1 min"
    assert rows["connections"] == "3 of 151, 9 at most so far"
    assert rows["table cache in use"] == "500 of 2,000 (25%)"
    assert rows["buffer pool in use"] == "3,072 of 4,096 (75%)"
    assert rows["key cache in use, at most so far"] == "1,048,576 of 8,388,608 (12%)"
    assert "temporary tables on disk" not in rows


def test_variables_and_counters_of_memory() -> None:
    rows = dict(list_memory_variables(VARIABLES, catalogue.procedure()).rows)
    assert isinstance(rows["innodb_buffer_pool_size"], Bytes)
    assert rows["table_open_cache"] == 2000
    assert not {"wait_timeout", "have_query_cache"} & set(rows)
    assert "removed in MySQL 5.7.4" in str(rows["innodb_additional_mem_pool_size"])
    assert rows["query_cache_size"] == MIB
    found = {row[0]: row[1:] for row in list_counters(STATUS, catalogue.procedure()).rows}
    assert found["Questions"] == (7320, 2.0)
    assert found["Memory_used"] == (90 * MIB, None)


def test_the_host() -> None:
    found = dict(describe_host().rows)
    assert found["MemTotal"] > 2**20
    assert {"kernel", "CPUs", "vm.overcommit_memory", "vm.swappiness"} <= set(found)
    assert parse_meminfo("MemTotal:  12 kB\nHugePages_Total:  3\nCpus_allowed_list:\t0-1\nempty:\n") == {
        "MemTotal": 12288, "HugePages_Total": 3, "Cpus_allowed_list": "0-1",
    }  # fmt: skip
