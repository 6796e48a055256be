"""Gather at once what a DBA looks up by hand when a server has grown: variables, counters, caches,
session buffers, InnoDB's report, the memory summaries of performance_schema, the process list with
its memory, the host. Only SELECT and SHOW.
"""

from pathlib import Path

import pymysql
from pymysql.cursors import Cursor

from dballoc import catalogue
from dballoc.evidence.sql import innodb_status
from dballoc.evidence.sql.innodb_status import BufferPool
from dballoc.evidence.sql.server_memory import AT_NEXT_START, LOGS, POOL, ServerMemory, parse_number
from dballoc.explain.checklist import host_summary, memory_events, server_summary, session_buffers
from dballoc.explain.checklist.memory_events import EventFilter
from dballoc.explain.checklist.section import Bytes, Cell, ChecklistSection
from dballoc.explain.checklist.section_query import (
    TOP_ROWS,
    build_or_explain,
    explain_refusal,
    query_rows,
)
from dballoc.explain.ledger.ledger import Ledger
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.snapshot import ProcessSnapshot
from dballoc.servers.running.sql_values import parse_count

_BEFORE = ("session", "user", "command", "seconds", "state")
# Newest first: a version refuses columns that it does not have.
_SESSIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "SELECT ID, USER, COMMAND, TIME, STATE, MEMORY_USED, MAX_MEMORY_USED FROM "
        "information_schema.PROCESSLIST"
        f" ORDER BY MEMORY_USED DESC LIMIT {TOP_ROWS}",
        ("bytes", "most bytes"),
    ),
    (
        "SELECT ID, USER, COMMAND, TIME, STATE, MEMORY_USED FROM information_schema.PROCESSLIST"
        f" ORDER BY MEMORY_USED DESC LIMIT {TOP_ROWS}",
        ("bytes",),
    ),
    (
        "SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_COMMAND, PROCESSLIST_TIME, "
        "PROCESSLIST_STATE, TOTAL_MEMORY,"
        " MAX_TOTAL_MEMORY, CONTROLLED_MEMORY FROM performance_schema.threads WHERE TYPE = "
        "'FOREGROUND'"
        f" ORDER BY TOTAL_MEMORY DESC LIMIT {TOP_ROWS}",
        ("bytes", "most bytes", "of it counted against its limit, bytes"),
    ),
    (
        "SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_COMMAND, PROCESSLIST_TIME, "
        "PROCESSLIST_STATE,"
        " SUM(CURRENT_NUMBER_OF_BYTES_USED) FROM performance_schema.threads"
        " JOIN performance_schema.memory_summary_by_thread_by_event_name USING (THREAD_ID) WHERE "
        "TYPE = 'FOREGROUND'"
        f" GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC LIMIT {TOP_ROWS}",
        ("bytes",),
    ),
)
_PLUGINS = (
    "SELECT PLUGIN_NAME, PLUGIN_TYPE, PLUGIN_VERSION, PLUGIN_LIBRARY FROM "
    "information_schema.PLUGINS"
    " WHERE PLUGIN_STATUS = 'ACTIVE' AND (PLUGIN_LIBRARY IS NOT NULL OR PLUGIN_TYPE = 'STORAGE "
    "ENGINE') ORDER BY 2, 1"
)
_STATUS = "SHOW ENGINE INNODB STATUS"


def describe_host_and_process(look: ProcessSnapshot) -> list[ChecklistSection]:
    """Return the sections of the host and the process. Raises OSError if the process has ended."""
    meminfo = host_summary.parse_meminfo(Path("/proc/meminfo").read_text())
    return [
        host_summary.describe_host(),
        host_summary.summarize_host_memory(meminfo, host_summary.sum_rss()),
        host_summary.describe_process(look),
    ]


def query_server_sections(
    cursor: Cursor, server: ServerMemory, events: EventFilter
) -> list[ChecklistSection]:
    """Query the server and return its sections, of the account summary the rows of ``events``.
    pymysql.Error only if the connection is lost; a statement that the server refuses is told in its
    section. Raises ValueError for an answer that no server gives. ``events``: which rows of the
    account summary are wanted.
    """
    entries = catalogue.procedure()
    schema_off = _explain_schema_off(server.variables)
    return [
        server_summary.summarize_server(server.variables, server.status, entries),
        server_summary.summarize_caches(server.variables, server.status),
        server_summary.list_memory_variables(server.variables, entries),
        session_buffers.query_session_buffers(
            cursor, server.variables, entries, server.mariadb, schema_off
        ),
        server_summary.list_counters(server.status, entries),
        build_or_explain(
            "InnoDB: BUFFER POOL AND MEMORY",
            _STATUS,
            lambda: _query_buffer_pool(cursor, parse_number(server.variables, "innodb_page_size")),
        ),
        *memory_events.query_event_sections(cursor, schema_off, events),
        _query_sessions(cursor, schema_off),
        build_or_explain("plugins and engines", _PLUGINS, lambda: _query_plugins(cursor)),
    ]


def _explain_schema_off(variables: dict[str, str]) -> str | None:
    """Return why performance_schema has no data, and what to do; None where it is on."""
    setting = variables.get("performance_schema")
    if setting is None:
        return "this version has no performance_schema"
    return None if setting == "ON" else f"performance_schema is off; {AT_NEXT_START}"


def _query_buffer_pool(cursor: Cursor, page: int) -> ChecklistSection:
    title = "InnoDB: BUFFER POOL AND MEMORY"
    cursor.execute(_STATUS)
    pool = innodb_status.parse_buffer_pool("\n".join(str(row[-1]) for row in cursor.fetchall()))
    if pool is None:
        return ChecklistSection(
            title=title, source=_STATUS, missing="InnoDB is off, or prints no such section"
        )
    return ChecklistSection(
        title=title,
        source=_STATUS,
        columns=("figure", "value", "in bytes"),
        rows=list_pool_rows(pool, page or 16_384),
    )


def list_pool_rows(pool: BufferPool, page: int) -> list[tuple[Cell, ...]]:
    """Return the rows of a pool's numbers; those in pages also in bytes, of ``page`` bytes a page.
    Pure.
    """
    names = {
        "allocated": "memory allocated",
        "additional": "in additional pool",
        "read_views": "allocated by read views",
        "dictionary": "dictionary memory",
        "bytes": "pool size",
    }
    pages = ("pages", "free", "database", "old", "modified")
    rows: list[tuple[Cell, ...]] = [
        (words, None, Bytes(pool.figures[name]))
        for name, words in names.items()
        if name in pool.figures
    ]
    for name, table in pool.tables.items():
        rows.append((f"hash tables: {name}", None, Bytes(table.total)))
        if table.constant is not None and table.variable is not None:
            rows += [
                (f"hash tables: {name}, constant part", None, Bytes(table.constant)),
                (f"hash tables: {name}, variable part", None, Bytes(table.variable)),
            ]
    rows += [
        (
            "pool, pages" if n == "pages" else f"{n} pages",
            pool.figures[n],
            Bytes(pool.figures[n] * page),
        )
        for n in pages
        if n in pool.figures
    ]
    rows += [
        (f"pages {n}", pool.figures[n], Bytes(pool.figures[n] * page))
        for n in ("read", "created", "written")
        if n in pool.figures
    ]
    if "lru" in pool.figures:
        rows.append(("LRU length, pages", pool.figures["lru"], Bytes(pool.figures["lru"] * page)))
    if "pending_reads" in pool.figures:
        rows.append(("pending reads", pool.figures["pending_reads"], None))
    if pool.hit_rate is not None:
        rows.append(("hit rate", pool.hit_rate, None))
    if pool.instances:
        rows.append(("instances", len(pool.instances), None))
    return rows


def _query_sessions(cursor: Cursor, schema_off: str | None) -> ChecklistSection:
    title, refused = "sessions", ""
    for sql, figures in _SESSIONS:
        if "performance_schema" in sql and schema_off:
            refused = schema_off
            continue
        try:
            rows: list[tuple[Cell, ...]] = [
                (*row[:5], *(Bytes(parse_count(x)) for x in row[5:]))
                for row in query_rows(cursor, sql, len(_BEFORE) + len(figures))
            ]
        except pymysql.Error as error:
            refused = explain_refusal(error)
            continue
        return ChecklistSection(title=title, source=sql, columns=(*_BEFORE, *figures), rows=rows)
    return ChecklistSection(
        title=title,
        source=_SESSIONS[-1][0],
        missing=f"the memory of sessions is not counted: {refused}",
    )


def _query_plugins(cursor: Cursor) -> ChecklistSection:
    rows = query_rows(cursor, _PLUGINS, 4)
    return ChecklistSection(
        title="plugins and engines",
        source=_PLUGINS,
        columns=("name", "kind", "version", "library"),
        rows=rows,
    )


TITLE = "InnoDB beyond its buffer pool (rule of thumb: 10 % of the pool)"
_SOURCE = "the ledger"
# Owners of the ledger whose names do not begin with InnoDB's.
_AREA, _HASH_INDEX = "memory/innodb", "adaptive hash index"
# A pool's mapping that is larger by more than this share has something else in it.
_MOST_DESCRIPTORS = 0.25


def measure_innodb_beyond_pool(ledger: Ledger, labels: ServerMemory) -> ChecklistSection:
    """Return the section: InnoDB's lines of the ledger beside the pool, and their share of it."""
    pool = parse_number(labels.variables, "innodb_buffer_pool_size")
    if not pool:
        return ChecklistSection(
            title=TITLE, source=_SOURCE, missing="InnoDB is off, or not in this server"
        )
    filled = labels.filled.get(POOL, 0)
    lines = _sum_innodb_lines(ledger)
    descriptors = _measure_descriptors(ledger, pool)
    if descriptors:
        lines["descriptors of the pool's pages, mapped with it"] = descriptors
    beyond = sum(lines.values())

    def row(name: str, size: int) -> tuple[Cell, ...]:
        return name, Bytes(size), f"{size / pool:.1%}"

    return ChecklistSection(
        title=TITLE,
        source=_SOURCE,
        columns=("owner", "resident", "of the pool"),
        rows=[
            ("the pool, as configured", Bytes(pool), "100.0%"),
            row("filled of it", filled),
            *(row(owner, size) for owner, size in sorted(lines.items(), key=lambda x: -x[1])),
            row("beyond the pool, in all", beyond),
        ],
        note=_explain_gaps(ledger, labels),
    )


def _sum_innodb_lines(ledger: Ledger) -> dict[str, int]:
    """Return the resident bytes of InnoDB's owners beside the pool."""
    return {
        owner: size
        for owner, size in ledger.sum_by_owner().items()
        if (owner.startswith("InnoDB") or owner in (_AREA, _HASH_INDEX)) and owner != POOL
    }


def _measure_descriptors(ledger: Ledger, pool: int) -> int:
    """Return by how much the pool's own mapping is larger than configured, as far as that is
    resident: MySQL maps the descriptors of the pages with them.
    """
    mapped = sum(line.size for line in ledger.lines if line.owner == POOL)
    more = mapped - pool
    return min(more, ledger.sum_resident(POOL)) if 0 < more <= _MOST_DESCRIPTORS * pool else 0


def _explain_gaps(ledger: Ledger, labels: ServerMemory) -> str | None:
    """Return what the sum leaves out, and why; None if nothing is known to be missing."""
    gaps = []
    if not labels.counted:
        gaps.append(
            "the memory instruments are off, so this is only what status and sizes tell of InnoDB"
        )
    owners = {line.owner for line in ledger.lines}
    if MappingKind.POOL in owners and LOGS not in owners:
        gaps.append("its log buffers are not told from the pool here")
    return "; ".join(gaps) or None
