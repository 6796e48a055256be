"""Query a server's own statistics of its memory over SQL. Only SELECT and SHOW; nothing is enabled
or written.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import pymysql
from pymysql.cursors import Cursor

from dballoc.catalogue import instruments
from dballoc.servers.running.sql_values import describe_refusal, fetch_rows, parse_count

POOL, SCHEMA, LOGS = "InnoDB buffer pool", "performance_schema itself", "InnoDB log buffers"
KEYS, ARIA, SESSIONS, DICTIONARY = (
    "key cache (MyISAM)",
    "Aria page cache",
    "sessions",
    "InnoDB dictionary",
)

MEMORY_TABLES = "MEMORY tables"
# Of a key cache with a name of its own; what is before it in the default one's.
_NAMED_KEYS = "key cache {name} (MyISAM)"
# MariaDB alone lists them; more of them than that nobody has.
_KEY_CACHES = """SELECT KEY_CACHE_NAME, FULL_SIZE, USED_BLOCKS * BLOCK_SIZE
 FROM information_schema.KEY_CACHES
  WHERE KEY_CACHE_NAME <> 'default' AND SEGMENT_NUMBER IS NULL AND FULL_SIZE > 0 LIMIT 16"""

POOL_EVENT = "memory/innodb/buf_buf_pool"

# (blocks, bytes) of each event.
Counted = dict[str, tuple[int, int]]

# What makes the server count its memory from its start on.
AT_NEXT_START = (
    "for the next start: performance_schema = ON, performance_schema_instrument = 'memory/%=ON'"
)
_SCHEMA_OFF = (
    "performance_schema is off: the heap's owners are known from status and variables "
    f"alone; {AT_NEXT_START}"
)
_SCHEMA_STATUS = "SHOW ENGINE PERFORMANCE_SCHEMA STATUS"

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
_TABLES = (
    "SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.TABLES WHERE ENGINE = 'MEMORY' AND "
    "TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'sys', 'mysql')"
)
_BY_TABLES = "DATA_LENGTH + INDEX_LENGTH of information_schema.TABLES"
# By whether it is MariaDB; each within a second.
_MEMORY_TABLES = {
    True: f"SET STATEMENT max_statement_time = 1 FOR SELECT {_TABLES}",
    False: f"SELECT /*+ MAX_EXECUTION_TIME(1000) */ {_TABLES}",
}
# Bytes of the engine MEMORY for which it is asked what has them.
_MUCH = 16 << 20
# With a smaller share of them on, the instruments leave out too much of the heap.
_ENOUGH = 0.9

# Bytes that MySQL's my_malloc puts before each block, which no instrument counts (my_malloc.cc:
# my_memory_header); InnoDB's own allocator counts its headers.
_HEADER = 32

# MariaDB counts per connection; MySQL per thread and event, and from 8.0.31 on also in total per
# thread.
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
# Blocks from this size on are recognised by it: malloc maps each of them by itself.
LARGE = 128 << 10
# Headers and links beside powers of two are less than a page.
_PAGE, _FEW = 4096, 4
_MOST_DIGITS = 20
# How many of the biggest users, sessions and instruments are named, and with which share of an
# owner's bytes an instrument is.
_NAMED, _PART = 5, 0.05


@dataclass(frozen=True, kw_only=True)
class OwnerMemory:
    """Bytes that the server reports for one owner in malloc's memory.

    ``source``: the statement or variable that reports them; ``single_block``: one block that is
    recognised by its size alone; ``parts``: the largest shares of it; ``sizes``: of the large
    blocks in it; ``near``: relative error of those sizes; ``zeroed``: the server writes to all of
    it when it allocates it, so that all of it is resident; ``touched``: bytes that were written to
    at least, ``grain``: about how large the blocks are in which the others lie, 0 if unknown.
    """

    owner: str
    bytes: int
    source: str
    single_block: bool = False
    parts: tuple[tuple[str, int], ...] = ()
    sizes: tuple[int, ...] = ()
    near: float = 0.0
    zeroed: bool = False
    touched: int = 0
    grain: int = 0


@dataclass(frozen=True, kw_only=True)
class ServerMemory:
    """The server's own statistics of its memory.

    ``heap``: what lies in malloc's memory; ``tables``: sizes of performance_schema's own tables;
    ``mapped_caches``: bytes of the caches that the server maps itself, by owner; ``variables`` and
    ``status``: by name in lower case; ``sessions``: (user, connections, bytes);
    ``largest_session``: bytes of one; ``filled``: bytes of ``mapped_caches`` that are in use;
    ``counted``: (blocks, bytes) of each memory instrument, empty unless enough of them are on.
    """

    version: str
    heap: list[OwnerMemory]
    tables: list[int]
    mapped_caches: dict[str, int]
    variables: dict[str, str]
    status: dict[str, str]
    sessions: list[tuple[str, int, int]] = field(default_factory=list)
    largest_session: int = 0
    notes: list[str] = field(default_factory=list)
    filled: dict[str, int] = field(default_factory=dict)
    counted: Counted = field(default_factory=dict)

    @property
    def mariadb(self) -> bool:
        """Whether it is MariaDB; otherwise MySQL or Percona Server."""
        return _is_mariadb(self.version)


def query_server_memory(cursor: Cursor) -> ServerMemory:
    """Query variables, status, sessions and memory instruments.

    Raises pymysql.Error if the server does not answer; what this account may not see is in
    ``notes``.
    """
    version = str(fetch_rows(cursor, "SELECT VERSION()")[0][0])
    variables = query_values(cursor, "SHOW GLOBAL VARIABLES")
    status = query_values(cursor, "SHOW GLOBAL STATUS")
    has_schema = variables.get("performance_schema") == "ON"
    tables, schema, schema_notes = _query_schema_memory(cursor) if has_schema else ([], None, [])
    counted, session_bytes, instrument_notes = (
        _query_instruments(cursor) if has_schema else ({}, {}, [_SCHEMA_OFF])
    )
    sessions, session_notes = _query_sessions(cursor, bool(counted))
    from_status = [
        *_list_status_labels(version, variables, status, sessions),
        *_query_memory_tables(cursor, _is_mariadb(version), counted),
    ]
    header = 0 if _is_mariadb(version) else _HEADER
    heap = [
        *([schema] if schema else []),
        *(
            assign_to_owners(counted, session_bytes, header, from_status)
            if counted
            else from_status
        ),
        *_query_rocksdb(cursor),
        OwnerMemory(
            owner=_TRANSACTIONS,
            bytes=_POOL_OF_TRANSACTIONS,
            source="by its size",
            single_block=True,
        ),
    ]
    parts = describe_biggest_sessions(sessions)
    key_caches = _query_key_caches(cursor) if _is_mariadb(version) else {}
    return ServerMemory(
        version=version,
        heap=[
            replace(label, parts=(*label.parts, *parts)) if label.owner == SESSIONS else label
            for label in heap
            if label.bytes > 0
        ],
        tables=tables,
        mapped_caches=_list_cache_sizes(variables)
        | {owner: size for owner, (size, _) in key_caches.items()},
        variables=variables,
        status=status,
        sessions=total_by_user(sessions),
        largest_session=max((size for *_, size in sessions), default=0),
        notes=[*schema_notes, *session_notes, *instrument_notes],
        filled=compute_filled_bytes(variables, status, counted)
        | {owner: used for owner, (_, used) in key_caches.items()},
        counted=counted,
    )


def _is_mariadb(version: str) -> bool:
    return "mariadb" in version.lower()


def _list_status_labels(
    version: str,
    variables: dict[str, str],
    status: dict[str, str],
    sessions: Sequence[tuple[str, str, int]],
) -> list[OwnerMemory]:
    """List what status counters, variables and the process list tell, without the memory
    instruments. Pure.
    """
    in_sessions = sum(size for *_, size in sessions)
    figures = (
        (DICTIONARY, status, "innodb_mem_dictionary"),
        ("adaptive hash index", status, "innodb_mem_adaptive_hash"),
        ("query cache", variables, "query_cache_size"),
        (LOGS, variables, "innodb_log_buffer_size"),
    )
    labels = [
        OwnerMemory(
            owner=owner,
            bytes=parse_number(values, name),
            source=f"status {name}" if values is status else name,
            single_block=owner == LOGS,
        )
        for owner, values, name in figures
    ]
    source = "processlist" if _is_mariadb(version) else "P_S"
    return [*labels[:3], OwnerMemory(owner=SESSIONS, bytes=in_sessions, source=source), labels[3]]


def _list_cache_sizes(variables: dict[str, str]) -> dict[str, int]:
    """List the configured bytes of the caches that the server maps itself, by owner. Pure."""
    sizes = {
        POOL: parse_number(variables, "innodb_buffer_pool_size"),
        KEYS: parse_number(variables, "key_buffer_size"),
        ARIA: parse_number(variables, "aria_pagecache_buffer_size"),
    }
    return {owner: size for owner, size in sizes.items() if size}


def _query_key_caches(cursor: Cursor) -> dict[str, tuple[int, int]]:
    """Return (configured, filled) bytes of the key caches beside the default one, by owner."""
    try:
        return {
            _NAMED_KEYS.format(name=name): (parse_count(size), parse_count(used))
            for name, size, used in fetch_rows(cursor, _KEY_CACHES)
        }
    except pymysql.Error:
        return {}


def compute_filled_bytes(
    variables: dict[str, str], status: dict[str, str], counted: Counted
) -> dict[str, int]:
    """Return the bytes of the caches that the server maps itself and has used since it started, by
    owner. Pure.
    """
    pages = parse_number(status, "innodb_buffer_pool_pages_total") - parse_number(
        status, "innodb_buffer_pool_pages_free"
    )
    # MySQL's instrument of the pool includes the descriptors of all pages, written at the start.
    descriptors = counted.get(POOL_EVENT, (0, 0))[1] - parse_number(
        variables, "innodb_buffer_pool_size"
    )
    return {
        POOL: max(0, pages) * parse_number(variables, "innodb_page_size") + max(0, descriptors),
        KEYS: parse_number(status, "key_blocks_used")
        * parse_number(variables, "key_cache_block_size"),
        ARIA: parse_number(status, "aria_pagecache_blocks_used")
        * parse_number(variables, "aria_block_size"),
    }


def query_values(cursor: Cursor, sql: str) -> dict[str, str]:
    """Return the values of a SHOW statement by name in lower case."""
    return {str(name).lower(): str(value) for name, value in fetch_rows(cursor, sql)}


def _query_number(cursor: Cursor, sql: str) -> int:
    """Return one number, or 0 where the table does not exist."""
    try:
        return parse_count(fetch_rows(cursor, sql)[0][0])
    except pymysql.Error:
        return 0


def _query_rocksdb(cursor: Cursor) -> Iterator[OwnerMemory]:
    """Yield RocksDB's caches and memtables; of 0 bytes where there is no RocksDB."""
    for owner, table, stat_type in _ROCKSDB:
        size = _query_number(
            cursor,
            f"SELECT SUM(VALUE) FROM information_schema.{table} WHERE STAT_TYPE = '{stat_type}'",
        )
        if owner == MEMTABLES and size and (total := _query_memtables(cursor)) > size:
            yield OwnerMemory(
                owner=owner, bytes=total, source="SHOW ENGINE ROCKSDB STATUS: MemTable Total"
            )
        else:
            yield OwnerMemory(owner=owner, bytes=size, source=f"{table}.{stat_type}")


def _query_memtables(cursor: Cursor) -> int:
    """Return the bytes of RocksDB's memtables, including flushed ones that it keeps for
    transactions that check for conflicts; 0 without RocksDB, or if this account may not see it.
    """
    try:
        rows = fetch_rows(cursor, "SHOW ENGINE ROCKSDB STATUS")
    except pymysql.Error:
        return 0
    matches = (
        re.search(r"MemTable Total: ([0-9]{1,19})(?![0-9])", str(text))
        for kind, _, text in rows
        if kind == "MEMORY_STATS"
    )
    return next((int(match[1]) for match in matches if match), 0)


def _query_schema_memory(cursor: Cursor) -> tuple[list[int], OwnerMemory | None, list[str]]:
    """Return (the sizes of performance_schema's tables, largest first; their sum; notes)."""
    try:
        rows = fetch_rows(cursor, _SCHEMA_STATUS)
    except pymysql.Error as error:
        return (
            [],
            None,
            [f"the memory of performance_schema is not known: {describe_refusal(error)}"],
        )
    sizes = {
        str(name): parse_count(value) for _, name, value in rows if str(name).endswith(".memory")
    }
    total = sizes.pop("performance_schema.memory", 0)
    label = OwnerMemory(owner=SCHEMA, bytes=total, source=_SCHEMA_STATUS, zeroed=True)
    return sorted(sizes.values(), reverse=True), label, []


def _query_sessions(
    cursor: Cursor, is_counted: bool
) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Return ((ID, user, bytes) of each session, notes): by the instruments where these count,
    as MariaDB's process list leaves out what they have, such as copies of stored programs.
    """
    refused = ""
    for sql in _EVERY_SESSION[::-1] if is_counted else _EVERY_SESSION:
        try:
            return [
                (str(number), str(user), parse_count(size))
                for number, user, size in fetch_rows(cursor, sql)
            ], []
        except pymysql.Error as error:
            refused = describe_refusal(error)
    return [], [f"the memory of sessions is not known: {refused}"]


def total_by_user(sessions: Sequence[tuple[str, str, int]]) -> list[tuple[str, int, int]]:
    """Return (user, connections, bytes), most bytes first. Pure."""
    totals: dict[str, tuple[int, int]] = {}
    for _, user, size in sessions:
        count, total = totals.get(user, (0, 0))
        totals[user] = count + 1, total + size
    return sorted(
        ((user, count, total) for user, (count, total) in totals.items()), key=lambda row: -row[2]
    )


def describe_biggest_sessions(
    sessions: Sequence[tuple[str, str, int]],
) -> tuple[tuple[str, int], ...]:
    """Return (description, bytes) of the users and the single sessions that have most. Pure."""
    users = [
        (f"user {user}: {count} sessions", size)
        for user, count, size in total_by_user(sessions)[:_NAMED]
    ]
    single = sorted(sessions, key=lambda s: -s[2])[:_NAMED] if len(sessions) > 1 else []
    return (*users, *((f"session {number} of {user}", size) for number, user, size in single))


def _query_instruments(cursor: Cursor) -> tuple[Counted, dict[str, int], list[str]]:
    """Return ((blocks, bytes) of each event, the bytes of it that sessions have, notes); nothing
    counted unless enough instruments are on. They count from when they were switched on.
    """
    notes: list[str] = []
    try:
        [(on, total)] = fetch_rows(cursor, _ENABLED)
        on, total = parse_count(on), parse_count(total)
        too_few = not total or on < _ENOUGH * total
        notes.append(
            f"{on} of {total} memory instruments are on" + (f"; {AT_NEXT_START}" if too_few else "")
        )
        if too_few:
            return {}, {}, notes
        counted = {
            str(name): (parse_count(count), parse_count(size))
            for name, count, size in fetch_rows(cursor, _INSTRUMENTS)
        }
        session_bytes = {
            str(name): parse_count(size) for name, size in fetch_rows(cursor, _OF_SESSIONS)
        }
        return counted, session_bytes, notes
    except pymysql.Error as error:
        return {}, {}, [*notes, f"memory instruments cannot be read: {describe_refusal(error)}"]


def _query_memory_tables(cursor: Cursor, mariadb: bool, counted: Counted) -> list[OwnerMemory]:
    """Return the tables of the engine MEMORY, where the instruments count much of it: temporary
    tables have the same ones.
    """
    if sum(size for name, (_, size) in counted.items() if _is_of_memory(name)) < _MUCH:
        return []
    try:
        if not mariadb:
            # MySQL would answer with sizes that may be a day old.
            cursor.execute("SET SESSION information_schema_stats_expiry = 0")
        [(size,)] = fetch_rows(cursor, _MEMORY_TABLES[mariadb])
    except pymysql.Error:
        return []
    return [
        OwnerMemory(
            owner=MEMORY_TABLES, bytes=parse_count(size or 0), source="information_schema.TABLES"
        )
    ]


class _EventShare(NamedTuple):
    """What an owner has of an event."""

    event: str
    blocks: int
    bytes: int

    @property
    def untouched(self) -> int:
        """Bytes that may never have been written to: a block's first page has been."""
        return max(0, self.bytes - self.blocks * _PAGE)


def assign_to_owners(
    counted: Counted,
    session_bytes: dict[str, int],
    header: int,
    from_status: Sequence[OwnerMemory] = (),
) -> list[OwnerMemory]:
    """Assign each byte that the instruments have counted to one owner. Pure.

    ``counted``: (blocks, bytes) of each event; ``session_bytes``: those of them that connections
    have; ``header``: bytes before each block that are not counted; ``from_status``: what status and
    variables report, where that says more of an owner than its instruments.
    """
    reported = {label.owner: label.bytes for label in from_status}
    of_memory_tables = reported.get(MEMORY_TABLES)
    owners: dict[str, list[_EventShare]] = {}
    sizes: dict[str, list[int]] = {}
    headers = 0
    for name, (blocks, size) in counted.items():
        owner = _find_owner(name)
        if owner == _APART:
            continue
        of_sessions = min(size, max(0, session_bytes.get(name, 0)))
        rest = size - of_sessions
        if of_memory_tables is not None and _is_of_memory(name):
            # A table is its server's, whoever has filled it.
            kept = min(size, of_memory_tables)
            of_memory_tables -= kept
            of_sessions = min(of_sessions, size - kept)
            rest = size - kept - of_sessions
            _add_share(owners, MEMORY_TABLES, name, (blocks, size), kept)
        _add_share(owners, SESSIONS, name, (blocks, size), of_sessions)
        _add_share(owners, owner, name, (blocks, size), rest)
        most = max((of_sessions, SESSIONS), (rest, owner))[1]
        sizes.setdefault(most, []).extend(_list_large_blocks(blocks, size))
        headers += 0 if name.startswith("memory/innodb/") else blocks * header
    labels = [
        _make_instrument_label(owner, shares, sizes.get(owner, ()))
        for owner, shares in owners.items()
    ]
    labels = _move_dictionary(labels, reported.get(DICTIONARY, 0))
    labels = [
        replace(label, parts=((_BY_TABLES, reported[MEMORY_TABLES]), *label.parts))
        if label.owner == MEMORY_TABLES
        else label
        for label in labels
    ]
    if headers:
        labels.append(_make_instrument_label(_HEADERS, [_EventShare("", 0, headers)], ()))
    return sorted(labels, key=lambda label: -label.bytes)


def _add_share(
    owners: dict[str, list[_EventShare]], owner: str, event: str, total: tuple[int, int], size: int
) -> None:
    """Add ``size`` bytes of an event of ``total`` (blocks, bytes) to an owner's."""
    blocks = -(-total[0] * size // total[1]) if total[1] else 0
    owners.setdefault(owner, []).append(_EventShare(event, blocks, size))


def _make_instrument_label(
    owner: str, shares: Sequence[_EventShare], sizes: Sequence[int]
) -> OwnerMemory:
    largest = max(shares, key=lambda share: share.untouched)
    total = sum(share.bytes for share in shares)
    ranked = sorted(shares, key=lambda share: -share.bytes)[:_NAMED]
    return OwnerMemory(
        owner=owner,
        bytes=total,
        source="performance_schema",
        sizes=tuple(sorted(sizes, reverse=True)),
        parts=tuple((x.event, x.bytes) for x in ranked if x.event and x.bytes >= _PART * total > 0),
        touched=total - sum(share.untouched for share in shares),
        grain=largest.bytes // max(1, largest.blocks) if largest.untouched else _PAGE,
        # As its pages in MySQL 9.7.4 show: 64.0 of 64.0 MiB after the start.
        zeroed=owner == LOGS,
    )


def _move_dictionary(labels: Sequence[OwnerMemory], reported: int) -> list[OwnerMemory]:
    """Return the labels with so much of the dictionary as the status has ``reported``: MariaDB's
    lies in heaps of InnoDB's that all have one instrument.
    """
    by_owner = {label.owner: label for label in labels}
    innodb = by_owner.get(_INNODB)
    dictionary = by_owner.get(DICTIONARY) or OwnerMemory(
        owner=DICTIONARY, bytes=0, source="performance_schema"
    )
    more = min(max(0, reported - dictionary.bytes), innodb.bytes if innodb else 0)
    if not more or innodb is None:
        return list(labels)
    touched = innodb.touched * more // innodb.bytes
    by_owner[_INNODB] = replace(innodb, bytes=innodb.bytes - more, touched=innodb.touched - touched)
    by_owner[DICTIONARY] = replace(
        dictionary, bytes=dictionary.bytes + more, touched=dictionary.touched + touched
    )
    return list(by_owner.values())


def _is_of_memory(event: str) -> bool:
    return event.startswith("memory/memory/")


def _list_large_blocks(blocks: int, size: int) -> list[int]:
    """List the sizes that an event's large blocks may have, from how many blocks and bytes it has
    counted. A size says something only if a block of exactly that size exists.
    """
    powers = [
        1 << bit for bit in range(_PAGE.bit_length() - 1, size.bit_length()) if size >> bit & 1
    ]
    # InnoDB's buffers of links are powers of two; of a few blocks one may have nearly all bytes.
    candidates = powers if 1 < blocks == len(powers) else [size] if blocks <= _FEW else []
    return [candidate for candidate in candidates if candidate >= LARGE]


def _find_owner(event: str) -> str:
    for owner, entry in instruments().items():
        if any(fnmatchcase(event, pattern) for pattern in entry["events"]):
            return owner
    return "/".join(event.split("/")[:2])


def is_number(value: str) -> bool:
    """Whether a server's value is a number, of 64 bits or a little more: one of thousands of digits
    would be no float any more.
    """
    return value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS


def parse_number(values: Mapping[str, str], name: str) -> int:
    """Return a variable or a status counter as a number; 0 if it is missing or not a number."""
    value = values.get(name, "")
    return int(value) if is_number(value) else 0
