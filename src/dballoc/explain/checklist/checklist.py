"""Gather at once what a DBA looks up by hand when a server has grown: variables, counters, InnoDB's
report, the memory summaries of performance_schema, the process list with its memory, the host. Only
SELECT and SHOW.
"""

from collections.abc import Callable, Sequence

import pymysql
from pymysql.cursors import Cursor

from dballoc import catalogue
from dballoc.explain.checklist import host_summary, server_summary
from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.explain.sources import innodb_status
from dballoc.explain.sources.innodb_status import BufferPool
from dballoc.explain.sources.server_memory import AT_NEXT_START, ServerMemory, parse_number
from dballoc.process_memory.process_snapshot import ProcessSnapshot

# How many rows of a long table are shown.
_TOP = 15

# Error numbers of a lost connection.
_LOST = (2006, 2013)

_COLUMNS = ("blocks", "bytes", "most bytes")
_COUNTED = "CURRENT_COUNT_USED, CURRENT_NUMBER_OF_BYTES_USED, HIGH_NUMBER_OF_BYTES_USED"

# The five summaries: what each is grouped by, its table, the columns that group it, their headings.
_SUMMARIES = (
    ("global", "memory_summary_global_by_event_name", (), ()),
    ("by account", "memory_summary_by_account_by_event_name", ("USER", "HOST"), ("user", "host")),
    ("by host", "memory_summary_by_host_by_event_name", ("HOST",), ("host",)),
    ("by thread", "memory_summary_by_thread_by_event_name", ("THREAD_ID",), ("thread",)),
    ("by user", "memory_summary_by_user_by_event_name", ("USER",), ("user",)),
)
_BEFORE = ("session", "user", "command", "seconds", "state")
# Newest first: a version refuses columns that it does not have.
_SESSIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "SELECT ID, USER, COMMAND, TIME, STATE, MEMORY_USED, MAX_MEMORY_USED FROM "
        "information_schema.PROCESSLIST"
        f" ORDER BY MEMORY_USED DESC LIMIT {_TOP}",
        ("bytes", "most bytes"),
    ),
    (
        "SELECT ID, USER, COMMAND, TIME, STATE, MEMORY_USED FROM information_schema.PROCESSLIST"
        f" ORDER BY MEMORY_USED DESC LIMIT {_TOP}",
        ("bytes",),
    ),
    (
        "SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_COMMAND, PROCESSLIST_TIME, "
        "PROCESSLIST_STATE, TOTAL_MEMORY,"
        " MAX_TOTAL_MEMORY, CONTROLLED_MEMORY FROM performance_schema.threads WHERE TYPE = "
        "'FOREGROUND'"
        f" ORDER BY TOTAL_MEMORY DESC LIMIT {_TOP}",
        ("bytes", "most bytes", "of it counted against its limit, bytes"),
    ),
    (
        "SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_COMMAND, PROCESSLIST_TIME, "
        "PROCESSLIST_STATE,"
        " SUM(CURRENT_NUMBER_OF_BYTES_USED) FROM performance_schema.threads"
        " JOIN performance_schema.memory_summary_by_thread_by_event_name USING (THREAD_ID) WHERE "
        "TYPE = 'FOREGROUND'"
        f" GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC LIMIT {_TOP}",
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


def describe_host_and_process(look: ProcessSnapshot) -> list[Section]:
    """Return the sections of the host and the process. OSError if the process has ended."""
    return [host_summary.describe_host(), host_summary.describe_process(look.pid, look.mappings)]


def query_server_sections(cursor: Cursor, server: ServerMemory) -> list[Section]:
    """Query the server and return its sections. pymysql.Error only if the connection is lost; a
    statement that the server refuses is told in its section.
    """
    entries = catalogue.procedure()
    schema_off = _explain_schema_off(server.variables)
    return [
        server_summary.summarize_server(server.variables, server.status, entries),
        server_summary.list_memory_variables(server.variables, entries),
        server_summary.list_counters(server.status, entries),
        _build_or_explain(
            "InnoDB: BUFFER POOL AND MEMORY",
            _STATUS,
            lambda: _query_buffer_pool(cursor, parse_number(server.variables, "innodb_page_size")),
        ),
        *(_query_summary(cursor, schema_off, *summary) for summary in _SUMMARIES),
        _query_sessions(cursor, schema_off),
        _build_or_explain("plugins and engines", _PLUGINS, lambda: _query_plugins(cursor)),
    ]


def explain_missing_sections(why: str) -> list[Section]:
    """Return one section, which explains why the server was not queried."""
    return [Section(title="server", source="SQL", missing=why)]


def _explain_schema_off(variables: dict[str, str]) -> str | None:
    """Return why performance_schema has no data, and what to do; None where it is on."""
    setting = variables.get("performance_schema")
    if setting is None:
        return "this version has no performance_schema"
    return None if setting == "ON" else f"performance_schema is off; {AT_NEXT_START}"


def _build_or_explain(title: str, source: str, make: Callable[[], Section]) -> Section:
    """Return the section, or one that tells why the server refused it. OperationalError if the
    connection is lost.
    """
    try:
        return make()
    except pymysql.err.OperationalError as error:
        if error.args[0] in _LOST:
            raise
        return Section(title=title, source=source, missing=str(error.args[-1]))
    except pymysql.Error as error:
        return Section(title=title, source=source, missing=str(error.args[-1]))


def _query(cursor: Cursor, sql: str) -> list[tuple]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def _query_buffer_pool(cursor: Cursor, page: int) -> Section:
    title = "InnoDB: BUFFER POOL AND MEMORY"
    pool = innodb_status.parse_buffer_pool(
        "\n".join(str(row[-1]) for row in _query(cursor, _STATUS))
    )
    if pool is None:
        return Section(
            title=title, source=_STATUS, missing="InnoDB is off, or prints no such section"
        )
    return Section(
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
    rows += [
        (f"hash tables: {name}", None, Bytes(total)) for name, (total, _) in pool.tables.items()
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
    if pool.hit_rate is not None:
        rows.append(("hit rate", pool.hit_rate, None))
    if pool.instances:
        rows.append(("instances", len(pool.instances), None))
    return rows


def _query_summary(
    cursor: Cursor,
    schema_off: str | None,
    grouping: str,
    table: str,
    columns: Sequence[str],
    headings: Sequence[str],
) -> Section:
    title = f"performance_schema: memory {grouping}"
    chosen = ", ".join((*columns, "EVENT_NAME", _COUNTED))
    sql = (
        f"SELECT {chosen} FROM performance_schema.{table} WHERE CURRENT_NUMBER_OF_BYTES_USED <> 0"
        f" ORDER BY CURRENT_NUMBER_OF_BYTES_USED DESC LIMIT {_TOP}"
    )
    if schema_off:
        return Section(title=title, source=sql, missing=schema_off)

    def query() -> Section:
        rows = [
            (*row[:-3], int(row[-3]), Bytes(row[-2]), Bytes(row[-1])) for row in _query(cursor, sql)
        ]
        missing = (
            None
            if rows
            else f"no memory instrument that is on has counted anything; {AT_NEXT_START}"
        )
        return Section(
            title=title,
            source=sql,
            columns=(*headings, "event", *_COLUMNS),
            rows=rows,
            missing=missing,
        )

    return _build_or_explain(title, sql, query)


def _query_sessions(cursor: Cursor, schema_off: str | None) -> Section:
    title, refused = "sessions", ""
    for sql, figures in _SESSIONS:
        if "performance_schema" in sql and schema_off:
            refused = schema_off
            continue
        try:
            rows = [(*row[:5], *(Bytes(x or 0) for x in row[5:])) for row in _query(cursor, sql)]
        except pymysql.Error as error:
            if error.args[0] in _LOST:
                raise
            refused = str(error.args[-1])
            continue
        return Section(title=title, source=sql, columns=(*_BEFORE, *figures), rows=rows)
    return Section(
        title=title,
        source=_SESSIONS[-1][0],
        missing=f"the memory of sessions is not counted: {refused}",
    )


def _query_plugins(cursor: Cursor) -> Section:
    rows = [tuple(row) for row in _query(cursor, _PLUGINS)]
    return Section(
        title="plugins and engines",
        source=_PLUGINS,
        columns=("name", "kind", "version", "library"),
        rows=rows,
    )
