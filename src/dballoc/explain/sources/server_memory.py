"""What a server itself says of its memory, over SQL. Only SELECT and SHOW; nothing is enabled or
written.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import pymysql
from pymysql.cursors import Cursor

from dballoc.catalogue import instruments

POOL, SCHEMA, LOGS = "InnoDB buffer pool", "performance_schema itself", "InnoDB log buffers"
KEYS, ARIA, SESSIONS, DICTIONARY = (
    "key cache (MyISAM)",
    "Aria page cache",
    "sessions",
    "InnoDB dictionary",
)

POOL_EVENT = "memory/innodb/buf_buf_pool"

# (blocks, bytes) of each event.
Counted = dict[str, tuple[int, int]]

# What it takes that the server counts its memory from the beginning.
AT_NEXT_START = (
    "for the next start: performance_schema = ON, performance_schema_instrument = 'memory/%=ON'"
)

MEMTABLES = "RocksDB memtables"
# Owner, table of information_schema, its STAT_TYPE.
_ROCKSDB = (
    ("RocksDB block cache", "ROCKSDB_DBSTATS", "DB_BLOCK_CACHE_USAGE"),
    (MEMTABLES, "ROCKSDB_CFSTATS", "CUR_SIZE_ALL_MEM_TABLES"),
    ("RocksDB table readers", "ROCKSDB_CFSTATS", "NON_BLOCK_CACHE_SST_MEM_USAGE"),
)
_INSTRUMENTS = """SELECT EVENT_NAME, CURRENT_COUNT_USED, CURRENT_NUMBER_OF_BYTES_USED
 FROM performance_schema.memory_summary_global_by_event_name
  WHERE CURRENT_NUMBER_OF_BYTES_USED > 0"""
_OF_SESSIONS = """SELECT EVENT_NAME, SUM(CURRENT_NUMBER_OF_BYTES_USED)
 FROM performance_schema.memory_summary_by_thread_by_event_name
  JOIN performance_schema.threads USING (THREAD_ID)
 WHERE TYPE = 'FOREGROUND' GROUP BY EVENT_NAME"""
_ENABLED = (
    "SELECT SUM(ENABLED = 'YES'), COUNT(*) FROM performance_schema.setup_instruments WHERE NAME "
    "LIKE 'memory/%'"
)
# With fewer of them the instruments leave out too much to be an account of the heap.
_ENOUGH = 0.9

# MySQL's my_malloc puts so many bytes before each block, which no instrument counts (my_malloc.cc:
# my_memory_header); InnoDB's own allocator counts its.
_HEADER = 32

# MariaDB counts for every connection; MySQL for every thread, from 8.0.31 also with a total of
# each.
_EVERY_SESSION = (
    "SELECT ID, USER, MEMORY_USED FROM information_schema.PROCESSLIST",
    "SELECT PROCESSLIST_ID, PROCESSLIST_USER, TOTAL_MEMORY FROM performance_schema.threads WHERE "
    "TYPE = 'FOREGROUND'",
    "SELECT PROCESSLIST_ID, PROCESSLIST_USER, SUM(CURRENT_NUMBER_OF_BYTES_USED) FROM "
    "performance_schema.threads"
    " JOIN performance_schema.memory_summary_by_thread_by_event_name USING (THREAD_ID) WHERE TYPE "
    "= 'FOREGROUND' GROUP BY 1, 2",
)
_APART, _INNODB, _HEADERS = "apart", "memory/innodb", "headers of what the instruments count"
# InnoDB's pool of transactions begins as one block, which MariaDB does not instrument (trx0trx.cc,
# MAX_TRX_BLOCK_SIZE).
_TRANSACTIONS, _POOL_OF_TRANSACTIONS = "InnoDB's pool of transactions", 4 << 20
# Blocks of this size are found by it: malloc maps them by themselves.
LARGE = 128 << 10
# Headers and links beside powers of two are less than a page.
_PAGE, _FEW = 4096, 4
# So many of the biggest users, and sessions, are named.
_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Label:
    """Bytes that the server says an owner has asked malloc for; ``source``: where it says so;
    ``whole``: one block that is known by its size alone; ``parts``: who has most of it; ``sizes``:
    of large blocks that are part of it; ``near``: by which share they may be off; ``zeroed``: the
    server writes to all of it when it asks for it, so that it is in memory whole.
    """

    owner: str
    bytes: int
    source: str
    whole: bool = False
    parts: tuple[tuple[str, int], ...] = ()
    sizes: tuple[int, ...] = ()
    near: float = 0.0
    zeroed: bool = False


@dataclass(frozen=True, kw_only=True)
class Labels:
    """``heap``: what lies in malloc's memory; ``tables``: sizes of performance_schema's own tables;
    ``own``: bytes of what the server maps itself, by owner; ``variables`` and ``status`` by name in
    lower case; ``sessions``: (user, connections, bytes); ``filled``: bytes of ``own`` that are in
    use; ``counted``: (blocks, bytes) of each memory instrument, if enough are on.
    """

    version: str
    heap: list[Label]
    tables: list[int]
    own: dict[str, int]
    variables: dict[str, str]
    status: dict[str, str]
    sessions: list[tuple[str, int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    filled: dict[str, int] = field(default_factory=dict)
    counted: Counted = field(default_factory=dict)

    @property
    def mariadb(self) -> bool:
        """Else MySQL or a kin of it."""
        return "mariadb" in self.version.lower()


def read(cursor: Cursor) -> Labels:
    """Ask the server. pymysql.Error if it does not answer; what this user may not see is in the
    notes.
    """
    version = str(_rows(cursor, "SELECT VERSION()")[0][0])
    variables = {str(k).lower(): str(v) for k, v in _rows(cursor, "SHOW GLOBAL VARIABLES")}
    status = {str(k).lower(): str(v) for k, v in _rows(cursor, "SHOW GLOBAL STATUS")}
    notes: list[str] = []
    tables, schema = (
        _performance_schema(cursor, notes)
        if variables.get("performance_schema") == "ON"
        else ([], 0)
    )
    heap = (
        [
            Label(
                owner=SCHEMA,
                bytes=schema,
                source="SHOW ENGINE PERFORMANCE_SCHEMA STATUS",
                zeroed=True,
            )
        ]
        if schema
        else []
    )
    sessions = _sessions(cursor, notes)
    said = [
        Label(
            owner=DICTIONARY,
            bytes=number(status, "innodb_mem_dictionary"),
            source="status innodb_mem_dictionary",
        ),
        Label(
            owner="adaptive hash index",
            bytes=number(status, "innodb_mem_adaptive_hash"),
            source="status innodb_mem_adaptive_hash",
        ),
        Label(
            owner="query cache",
            bytes=number(variables, "query_cache_size"),
            source="query_cache_size",
        ),
        Label(
            owner=SESSIONS,
            bytes=sum(size for *_, size in sessions),
            source="processlist" if "mariadb" in version.lower() else "P_S",
        ),
        Label(
            owner=LOGS,
            bytes=number(variables, "innodb_log_buffer_size"),
            source="innodb_log_buffer_size",
            whole=True,
        ),
    ]
    counted: Counted = {}
    if variables.get("performance_schema", "OFF") == "ON":
        counted, of_sessions = _counted(cursor, notes)
        heap += (
            by_owner(counted, of_sessions, 0 if "mariadb" in version.lower() else _HEADER, said)
            if counted
            else said
        )
    else:
        heap += said
        notes.append(
            "performance_schema is off: the heap's owners are known by status and variables "
            f"alone; {AT_NEXT_START}"
        )
    for owner, table, what in _ROCKSDB:
        size = _one(
            cursor, f"SELECT SUM(VALUE) FROM information_schema.{table} WHERE STAT_TYPE = '{what}'"
        )
        heap.append(Label(owner=owner, bytes=size, source=f"{table}.{what}"))
        if owner == MEMTABLES and size and (whole := _memtables(cursor)) > size:
            heap[-1] = Label(
                owner=owner, bytes=whole, source="SHOW ENGINE ROCKSDB STATUS: MemTable Total"
            )
    heap.append(
        Label(owner=_TRANSACTIONS, bytes=_POOL_OF_TRANSACTIONS, source="by its size", whole=True)
    )
    parts = biggest(sessions)
    heap = [replace(label, parts=parts) if label.owner == SESSIONS else label for label in heap]
    own = {
        POOL: number(variables, "innodb_buffer_pool_size"),
        KEYS: number(variables, "key_buffer_size"),
        ARIA: number(variables, "aria_pagecache_buffer_size"),
    }
    found = [label for label in heap if label.bytes > 0]
    return Labels(
        version=version,
        heap=found,
        tables=tables,
        own={k: v for k, v in own.items() if v},
        variables=variables,
        status=status,
        sessions=by_user(sessions),
        notes=notes,
        filled=filled(variables, status, counted),
        counted=counted,
    )


def filled(variables: dict[str, str], status: dict[str, str], counted: Counted) -> dict[str, int]:
    """Bytes of the caches that the server maps itself, as far as it has used them since it started.
    Pure.
    """
    pages = number(status, "innodb_buffer_pool_pages_total") - number(
        status, "innodb_buffer_pool_pages_free"
    )
    # MySQL counts its pool with the descriptors of all pages, which it has made at its start.
    descriptors = counted.get(POOL_EVENT, (0, 0))[1] - number(variables, "innodb_buffer_pool_size")
    return {
        POOL: max(0, pages) * number(variables, "innodb_page_size") + max(0, descriptors),
        KEYS: number(status, "key_blocks_used") * number(variables, "key_cache_block_size"),
        ARIA: number(status, "aria_pagecache_blocks_used") * number(variables, "aria_block_size"),
    }


def _rows(cursor: Cursor, sql: str) -> list[tuple]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def _one(cursor: Cursor, sql: str) -> int:
    """A figure, or 0 where the table does not exist."""
    try:
        return int(_rows(cursor, sql)[0][0] or 0)
    except pymysql.Error:
        return 0


def _memtables(cursor: Cursor) -> int:
    """Bytes of RocksDB's memtables with those that it keeps after it has flushed them, for
    transactions that look for conflicts; 0 where there is no RocksDB, or this user may not see it.
    """
    try:
        rows = _rows(cursor, "SHOW ENGINE ROCKSDB STATUS")
    except pymysql.Error:
        return 0
    found = (
        re.search(r"MemTable Total: (\d+)", str(text))
        for kind, _, text in rows
        if kind == "MEMORY_STATS"
    )
    return next((int(match[1]) for match in found if match), 0)


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


def _sessions(cursor: Cursor, notes: list[str]) -> list[tuple[str, str, int]]:
    """(ID, user, bytes) of each."""
    refused = ""
    for sql in _EVERY_SESSION:
        try:
            return [
                (str(number), str(user), int(size or 0))
                for number, user, size in _rows(cursor, sql)
            ]
        except pymysql.Error as error:
            refused = str(error.args[-1])
    notes.append(f"sessions' memory is not known: {refused}")
    return []


def by_user(sessions: Sequence[tuple[str, str, int]]) -> list[tuple[str, int, int]]:
    """(user, connections, bytes), most bytes first. Pure."""
    found: dict[str, tuple[int, int]] = {}
    for _, user, size in sessions:
        count, whole = found.get(user, (0, 0))
        found[user] = count + 1, whole + size
    return sorted(
        ((user, count, size) for user, (count, size) in found.items()), key=lambda x: -x[2]
    )


def biggest(sessions: Sequence[tuple[str, str, int]]) -> tuple[tuple[str, int], ...]:
    """The users and the single sessions that have most, in words. Pure."""
    users = [
        (f"user {user}: {count} sessions", size) for user, count, size in by_user(sessions)[:_NAMED]
    ]
    single = sorted(sessions, key=lambda s: -s[2])[:_NAMED] if len(sessions) > 1 else []
    return (*users, *((f"session {number} of {user}", size) for number, user, size in single))


def _counted(cursor: Cursor, notes: list[str]) -> tuple[Counted, dict[str, int]]:
    """Of every event, and the bytes of it that sessions have; nothing unless enough instruments are
    on. They count from when they were switched on.
    """
    try:
        [(on, every)] = _rows(cursor, _ENABLED)
        few = not every or int(on or 0) < _ENOUGH * every
        notes.append(
            f"{int(on or 0)} of {every} memory instruments are on"
            + (f"; {AT_NEXT_START}" if few else "")
        )
        if few:
            return {}, {}
        counted = {
            str(name): (int(count), int(size)) for name, count, size in _rows(cursor, _INSTRUMENTS)
        }
        return counted, {str(name): int(size or 0) for name, size in _rows(cursor, _OF_SESSIONS)}
    except pymysql.Error as error:
        notes.append(f"memory instruments cannot be read: {error.args[-1]}")
        return {}, {}


def by_owner(
    counted: Counted, of_sessions: dict[str, int], header: int, said: Sequence[Label] = ()
) -> list[Label]:
    """What the instruments have counted, each byte with one owner. Pure.

    ``counted``: (blocks, bytes) of each event; ``of_sessions``: those bytes that connections have;
    ``header``: bytes before each block that are not counted; ``said``: what the server says
    elsewhere, where that tells more of an area than its instruments.
    """
    owners: dict[str, int] = {}
    sizes: dict[str, list[int]] = {}
    headers = 0
    for name, (blocks, size) in counted.items():
        owner = _owner(name)
        if owner == _APART:
            continue
        theirs = min(size, max(0, of_sessions.get(name, 0)))
        owners[SESSIONS] = owners.get(SESSIONS, 0) + theirs
        owners[owner] = owners.get(owner, 0) + size - theirs
        sizes.setdefault(owner, []).extend(_large(blocks, size))
        headers += 0 if name.startswith("memory/innodb/") else blocks * header
    dictionary = next((label.bytes for label in said if label.owner == DICTIONARY), 0)
    # MariaDB's dictionary lies in heaps of InnoDB's that all have one instrument.
    more = min(max(0, dictionary - owners.get(DICTIONARY, 0)), owners.get(_INNODB, 0))
    if more:
        owners[DICTIONARY] = owners.get(DICTIONARY, 0) + more
        owners[_INNODB] -= more
    if headers:
        owners[_HEADERS] = headers
    return [
        Label(
            owner=owner,
            bytes=size,
            source="performance_schema",
            sizes=tuple(sorted(sizes.get(owner, ()), reverse=True)),
        )
        for owner, size in sorted(owners.items(), key=lambda a: -a[1])
    ]


def _large(blocks: int, size: int) -> list[int]:
    """The sizes that large blocks may have, of so many that one event has counted; it takes a block
    of that very size to make something of it.
    """
    powers = [
        1 << bit for bit in range(_PAGE.bit_length() - 1, size.bit_length()) if size >> bit & 1
    ]
    # InnoDB's buffers of links are powers of two; of a few blocks one may be all but the whole.
    found = powers if 1 < blocks == len(powers) else [size] if blocks <= _FEW else []
    return [each for each in found if each >= LARGE]


def _owner(event: str) -> str:
    for owner, entry in instruments().items():
        if any(fnmatchcase(event, pattern) for pattern in entry["events"]):
            return owner
    return "/".join(event.split("/")[:2])


def number(values: Mapping[str, str], name: str) -> int:
    """A variable or a status of the server; 0 where there is none, or it is no number."""
    value = values.get(name, "")
    return int(value) if value.isdigit() else 0
