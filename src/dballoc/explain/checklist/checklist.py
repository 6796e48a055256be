"""What one looks up by hand when a server has grown, all of it in one go: variables, counters,
InnoDB's own report, the memory summaries of performance_schema, the process list with its memory,
the host. SELECT and SHOW alone.
"""

from collections.abc import Callable, Sequence

import pymysql
from pymysql.cursors import Cursor

from dballoc import catalogue
from dballoc.explain.checklist import host_summary, server_summary
from dballoc.explain.checklist.section import Bytes, Cell, Section
from dballoc.explain.sources import innodb_status
from dballoc.explain.sources.innodb_status import Pool
from dballoc.explain.sources.server_memory import AT_NEXT_START, Labels, number
from dballoc.process_memory.process_snapshot import Outside

# How many lines of a long table are shown.
_TOP = 15

_COLUMNS = ("blocks", "bytes", "most bytes")
_COUNTED = "CURRENT_COUNT_USED, CURRENT_NUMBER_OF_BYTES_USED, HIGH_NUMBER_OF_BYTES_USED"

# By what the five summaries are: title, table, the columns before the figures, and their headings.
_SUMMARIES = (
    ("global", "memory_summary_global_by_event_name", (), ()),
    ("by account", "memory_summary_by_account_by_event_name", ("USER", "HOST"), ("user", "host")),
    ("by host", "memory_summary_by_host_by_event_name", ("HOST",), ("host",)),
    ("by thread", "memory_summary_by_thread_by_event_name", ("THREAD_ID",), ("thread",)),
    ("by user", "memory_summary_by_user_by_event_name", ("USER",), ("user",)),
)
_BEFORE = ("session", "user", "command", "seconds", "state")
# Newest first: what a version lacks, it refuses.
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


def outside(look: Outside) -> list[Section]:
    """The host and the process. OSError if the process is gone."""
    return [host_summary.host(), host_summary.process(look.pid, look.mappings)]


def asked(cursor: Cursor, said: Labels) -> list[Section]:
    """What the server tells. pymysql.Error only where the connection is lost; what is refused says
    so in its section.
    """
    entries = catalogue.procedure()
    off = _off(said.variables)
    return [
        server_summary.summary(said.variables, said.status, entries),
        server_summary.settings(said.variables, entries),
        server_summary.counters(said.status, entries),
        _tried(
            "InnoDB: BUFFER POOL AND MEMORY",
            _STATUS,
            lambda: _innodb(cursor, number(said.variables, "innodb_page_size")),
        ),
        *(_summary(cursor, off, *each) for each in _SUMMARIES),
        _sessions(cursor, off),
        _tried("plugins and engines", _PLUGINS, lambda: _plugins(cursor)),
    ]


def unasked(why: str) -> list[Section]:
    """In place of what the server would have told."""
    return [Section(title="server", source="SQL", missing=why)]


def _off(variables: dict[str, str]) -> str | None:
    """Why performance_schema cannot help, and what to do; None where it is on."""
    setting = variables.get("performance_schema")
    if setting is None:
        return "this version has no performance_schema"
    return None if setting == "ON" else f"performance_schema is off; {AT_NEXT_START}"


def _tried(title: str, source: str, make: Callable[[], Section]) -> Section:
    try:
        return make()
    except pymysql.err.OperationalError as error:
        if error.args[0] in (2006, 2013):
            raise
        return Section(title=title, source=source, missing=str(error.args[-1]))
    except pymysql.Error as error:
        return Section(title=title, source=source, missing=str(error.args[-1]))


def _rows(cursor: Cursor, sql: str) -> list[tuple]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def _innodb(cursor: Cursor, page: int) -> Section:
    title = "InnoDB: BUFFER POOL AND MEMORY"
    found = innodb_status.parse("\n".join(str(row[-1]) for row in _rows(cursor, _STATUS)))
    if found is None:
        return Section(
            title=title, source=_STATUS, missing="InnoDB is off, or prints no such section"
        )
    return Section(
        title=title,
        source=_STATUS,
        columns=("figure", "value", "in bytes"),
        rows=pool_rows(found, page or 16_384),
    )


def pool_rows(pool: Pool, page: int) -> list[tuple[Cell, ...]]:
    """Figures of a pool; those in pages of ``page`` bytes in bytes too. Pure."""
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
        (f"hash tables: {name}", None, Bytes(whole)) for name, (whole, _) in pool.tables.items()
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


def _summary(
    cursor: Cursor,
    off: str | None,
    what: str,
    table: str,
    columns: Sequence[str],
    headings: Sequence[str],
) -> Section:
    title = f"performance_schema: memory {what}"
    chosen = ", ".join((*columns, "EVENT_NAME", _COUNTED))
    sql = (
        f"SELECT {chosen} FROM performance_schema.{table} WHERE CURRENT_NUMBER_OF_BYTES_USED <> 0"
        f" ORDER BY CURRENT_NUMBER_OF_BYTES_USED DESC LIMIT {_TOP}"
    )
    if off:
        return Section(title=title, source=sql, missing=off)

    def read() -> Section:
        rows = [
            (*row[:-3], int(row[-3]), Bytes(row[-2]), Bytes(row[-1])) for row in _rows(cursor, sql)
        ]
        none = (
            None
            if rows
            else f"no memory instrument that is on has counted anything; {AT_NEXT_START}"
        )
        return Section(
            title=title,
            source=sql,
            columns=(*headings, "event", *_COLUMNS),
            rows=rows,
            missing=none,
        )

    return _tried(title, sql, read)


def _sessions(cursor: Cursor, off: str | None) -> Section:
    title, refused = "sessions", ""
    for sql, figures in _SESSIONS:
        if "performance_schema" in sql and off:
            refused = off
            continue
        try:
            rows = [(*row[:5], *(Bytes(x or 0) for x in row[5:])) for row in _rows(cursor, sql)]
        except pymysql.Error as error:
            if error.args[0] in (2006, 2013):
                raise
            refused = str(error.args[-1])
            continue
        return Section(title=title, source=sql, columns=(*_BEFORE, *figures), rows=rows)
    return Section(
        title=title,
        source=_SESSIONS[-1][0],
        missing=f"the memory of sessions is not counted: {refused}",
    )


def _plugins(cursor: Cursor) -> Section:
    rows = [tuple(row) for row in _rows(cursor, _PLUGINS)]
    return Section(
        title="plugins and engines",
        source=_PLUGINS,
        columns=("name", "kind", "version", "library"),
        rows=rows,
    )
