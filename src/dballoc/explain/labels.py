"""What a server itself says of its memory, over SQL. Only SELECT and SHOW; nothing is enabled or written."""

from dataclasses import dataclass, field

import pymysql
from pymysql.cursors import Cursor

POOL, SCHEMA = "InnoDB buffer pool", "performance_schema itself"

# Owner, table of information_schema, its STAT_TYPE.
_ROCKSDB = (
    ("RocksDB block cache", "ROCKSDB_DBSTATS", "DB_BLOCK_CACHE_USAGE"),
    ("RocksDB memtables", "ROCKSDB_CFSTATS", "CUR_SIZE_ALL_MEM_TABLES"),
    ("RocksDB table readers", "ROCKSDB_CFSTATS", "NON_BLOCK_CACHE_SST_MEM_USAGE"),
)
# Of all memory instruments, those of performance_schema's own are told exactly elsewhere, and a pool is not of malloc.
_INSTRUMENTS = """SELECT EVENT_NAME, CURRENT_NUMBER_OF_BYTES_USED FROM performance_schema.memory_summary_global_by_event_name
 WHERE CURRENT_NUMBER_OF_BYTES_USED > 0 AND EVENT_NAME NOT LIKE 'memory/performance\\_schema/%'
 AND EVENT_NAME NOT IN ('memory/innodb/buf_buf_pool')"""
_ENABLED = "SELECT SUM(ENABLED = 'YES'), COUNT(*) FROM performance_schema.setup_instruments WHERE NAME LIKE 'memory/%'"
# With fewer of them the instruments leave out too much to be an account of the heap.
_ENOUGH = 0.9


@dataclass(frozen=True)
class Label:
    """Bytes that the server says an owner has asked malloc for; ``source``: where it says so."""

    owner: str
    bytes: int
    source: str


@dataclass(frozen=True)
class Labels:
    """``heap``: what lies in malloc's memory; ``tables``: sizes of performance_schema's own tables; ``own``: bytes of what the
    server maps itself, by owner; ``variables`` and ``status`` by name in lower case; ``sessions``: (user, connections, bytes).
    """

    version: str
    heap: list[Label]
    tables: list[int]
    own: dict[str, int]
    variables: dict[str, str]
    status: dict[str, str]
    sessions: list[tuple[str, int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def mariadb(self) -> bool:
        """Else MySQL or a kin of it."""
        return "mariadb" in self.version.lower()


def read(cursor: Cursor) -> Labels:
    """Ask the server. pymysql.Error if it does not answer; what this user may not see is in the notes."""
    version = str(_rows(cursor, "SELECT VERSION()")[0][0])
    variables = {str(k).lower(): str(v) for k, v in _rows(cursor, "SHOW GLOBAL VARIABLES")}
    status = {str(k).lower(): str(v) for k, v in _rows(cursor, "SHOW GLOBAL STATUS")}
    notes: list[str] = []
    tables, schema = _performance_schema(cursor, notes)
    heap = [Label(SCHEMA, schema, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS")] if schema else []
    for owner, name in (("InnoDB dictionary", "innodb_mem_dictionary"), ("adaptive hash index", "innodb_mem_adaptive_hash")):
        heap.append(Label(owner, _number(status.get(name)), f"status {name}"))
    heap.append(Label("query cache", _number(variables.get("query_cache_size")), "query_cache_size"))
    sessions = _sessions(cursor, notes)
    heap.append(Label("sessions", sum(size for *_, size in sessions), "processlist" if "mariadb" in version.lower() else "P_S"))
    for owner, table, what in _ROCKSDB:
        size = _one(cursor, f"SELECT SUM(VALUE) FROM information_schema.{table} WHERE STAT_TYPE = '{what}'")
        heap.append(Label(owner, size, f"{table}.{what}"))
    if instruments := _instruments(cursor, notes):
        heap = [*heap[: 1 if schema else 0], *instruments]
    own = {
        POOL: _number(variables.get("innodb_buffer_pool_size")),
        "key cache (MyISAM)": _number(variables.get("key_buffer_size")),
        "Aria page cache": _number(variables.get("aria_pagecache_buffer_size")),
    }
    found = [label for label in heap if label.bytes > 0]
    return Labels(version, found, tables, {k: v for k, v in own.items() if v}, variables, status, sessions, notes)


def _rows(cursor: Cursor, sql: str) -> list[tuple]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def _one(cursor: Cursor, sql: str) -> int:
    """A figure, or 0 where the table does not exist."""
    try:
        return int(_rows(cursor, sql)[0][0] or 0)
    except pymysql.Error:
        return 0


def _performance_schema(cursor: Cursor, notes: list[str]) -> tuple[list[int], int]:
    """The sizes of its tables, and their sum."""
    try:
        rows = _rows(cursor, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS")
    except pymysql.Error as error:
        notes.append(f"performance_schema's own memory is not known: {error.args[-1]}")
        return [], 0
    sizes = {str(name): int(value) for _, name, value in rows if str(name).endswith(".memory")}
    total = sizes.pop("performance_schema.memory", 0)
    return sorted(sizes.values(), reverse=True), total


def _sessions(cursor: Cursor, notes: list[str]) -> list[tuple[str, int, int]]:
    """By user. MariaDB counts for every connection; MySQL for every thread, as far as its instruments are on."""
    for sql in (
        "SELECT USER, COUNT(*), SUM(MEMORY_USED) FROM information_schema.PROCESSLIST GROUP BY USER",
        "SELECT PROCESSLIST_USER, COUNT(DISTINCT THREAD_ID), SUM(CURRENT_NUMBER_OF_BYTES_USED)"
        " FROM performance_schema.memory_summary_by_thread_by_event_name JOIN performance_schema.threads USING (THREAD_ID)"
        " WHERE TYPE = 'FOREGROUND' GROUP BY PROCESSLIST_USER",
    ):
        try:
            return [(str(user), int(n), int(size or 0)) for user, n, size in _rows(cursor, sql)]
        except pymysql.Error as error:
            refused = error
    notes.append(f"sessions' memory is not known: {refused.args[-1]}")
    return []


def _instruments(cursor: Cursor, notes: list[str]) -> list[Label]:
    """By area (innodb, sql, …), if enough of them are on. They count from when they were switched on."""
    try:
        [(on, every)] = _rows(cursor, _ENABLED)
        notes.append(f"{int(on or 0)} of {every} memory instruments are on")
        if not every or int(on or 0) < _ENOUGH * every:
            return []
        areas: dict[str, int] = {}
        for name, size in _rows(cursor, _INSTRUMENTS):
            area = str(name).split("/")[1]
            areas[area] = areas.get(area, 0) + int(size)
    except pymysql.Error as error:
        notes.append(f"memory instruments cannot be read: {error.args[-1]}")
        return []
    return [Label(f"memory/{area}", size, "performance_schema") for area, size in sorted(areas.items(), key=lambda a: -a[1])]


def _number(value: str | None) -> int:
    return int(value) if value and value.isdigit() else 0
