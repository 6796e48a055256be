"""Join sampled blocks with the server's sessions, by the thread that allocated them.

A block belongs to a session only if the session's thread was there when the block was allocated,
and to a statement only if it was allocated while that statement ran. A server that reuses threads
(thread_cache, a pool) may have allocated it for an earlier connection of that thread: that cannot
be told from outside.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pymysql
from pymysql.cursors import Cursor

from dballoc.host.process.handle import STARTED, Process, split_stat
from dballoc.profile.heap.probe_snapshot import SampledBlock
from dballoc.servers.running.sql_values import describe_refusal, fetch_rows

UNKNOWN = "(not attributed)"

# For MySQL and MariaDB alike. A server without performance_schema still has a process list.
_THREADS = """SELECT THREAD_OS_ID, THREAD_ID, PROCESSLIST_USER, PROCESSLIST_ID, NAME
 FROM performance_schema.threads WHERE THREAD_OS_ID IS NOT NULL"""
_PROCESSLIST = (
    "SELECT TID, NULL, USER, ID, COMMAND FROM information_schema.PROCESSLIST WHERE TID > 0"
)
_STATEMENTS = """SELECT THREAD_ID, TIMER_START, TIMER_END, COALESCE(DIGEST_TEXT, SQL_TEXT)
  FROM performance_schema.{table}
 WHERE TIMER_START IS NOT NULL AND (DIGEST_TEXT IS NOT NULL OR SQL_TEXT IS NOT NULL)"""
_TABLES = (
    "events_statements_current",
    "events_statements_history",
    "events_statements_history_long",
)
_NOW = """SELECT TIMER_END FROM performance_schema.events_statements_current
  JOIN performance_schema.threads USING (THREAD_ID)
 WHERE PROCESSLIST_ID = CONNECTION_ID()"""
_PICOSECOND = 1e-12
# Strings, also one that the server has cut off, and numbers; names in backquotes stay.
_LITERAL = re.compile(
    r"""(?P<name>`(?:[^`]|``)*+`?)|"(?:\\.|""|[^"\\])*+"?|'(?:\\.|''|[^'\\])*+'?|(?<![\w`])(?:0[xb])?\d[\w.]*+""",
    re.DOTALL,
)
# The server's clock and ours may differ by so many seconds.
_SLACK = 0.002


@dataclass(frozen=True)
class StatementSpan:
    """A statement that ran from ``start`` to ``end``: seconds, CLOCK_MONOTONIC."""

    start: float
    end: float
    digest: str


@dataclass(frozen=True, kw_only=True)
class ServerThread:
    """A thread of the server. ``user``: None for one that serves no connection; ``born``: when the
    thread began, seconds, CLOCK_MONOTONIC, 0 if that is not known.
    """

    user: str | None
    connection: int | None
    name: str
    born: float = 0.0
    statements: Sequence[StatementSpan] = field(default_factory=list)


def read_sessions(cursor: Cursor, process: Process) -> tuple[dict[int, ServerThread], list[str]]:
    """Read the server's threads, by the kernel's thread ID, and notes on what the server does not
    tell. Raises pymysql.Error if it tells nothing.
    """
    notes: list[str] = []
    try:
        rows = fetch_rows(cursor, _THREADS)
    except pymysql.Error:
        rows = []
    if not rows:  # performance_schema is off
        notes.append(
            "performance_schema is off: statements and the server's background threads have no "
            "names"
        )
        rows = fetch_rows(cursor, _PROCESSLIST)
    statements: Mapping[int, Sequence[StatementSpan]] = {}
    if any(row[1] is not None for row in rows):
        statements, statement_notes = _read_statements(cursor)
        notes += statement_notes
    sessions = {}
    for os_id, thread, user, connection, name in rows:
        number = None if connection is None else int(connection)
        sessions[int(os_id)] = ServerThread(
            user=str(user) if user is not None and number is not None else None,
            connection=number,
            name=str(name),
            born=_read_thread_start(process, int(os_id)),
            statements=statements.get(int(thread), []) if thread is not None else [],
        )
    return sessions, notes


def find_user(sessions: Mapping[int, ServerThread], block: SampledBlock) -> str:
    """Return the SQL user, or the server's background thread, that allocated a block."""
    session = _find_session(sessions, block)
    if session is None:
        return UNKNOWN
    return session.user if session.user is not None else f"(the server's own: {session.name})"


def find_connection(sessions: Mapping[int, ServerThread], block: SampledBlock) -> str:
    """Return the connection, with its user, that allocated a block."""
    session = _find_session(sessions, block)
    if session is None or session.connection is None:
        return find_user(sessions, block)
    return f"{session.connection} {session.user}"


def find_digest(sessions: Mapping[int, ServerThread], block: SampledBlock) -> str:
    """Return the statement that ran in a block's thread when it was allocated."""
    session = _find_session(sessions, block)
    for statement in session.statements if session else ():
        if statement.start - _SLACK <= block.time <= statement.end + _SLACK:
            return statement.digest
    return UNKNOWN


FIND_OWNER = {"user": find_user, "connection": find_connection, "digest": find_digest}


def _find_session(sessions: Mapping[int, ServerThread], block: SampledBlock) -> ServerThread | None:
    session = sessions.get(block.thread)
    return (
        session
        if session is not None and block.time >= session.born - 1 / os.sysconf("SC_CLK_TCK")
        else None
    )


def _read_statements(cursor: Cursor) -> tuple[dict[int, list[StatementSpan]], list[str]]:
    """Read the statements by performance_schema's thread ID, as far back as its histories reach,
    and notes on what could not be read.
    """
    statements: dict[int, list[StatementSpan]] = {}
    try:
        before = time.monotonic()
        [(timer,)] = fetch_rows(cursor, _NOW) or [(None,)]
        now = (before + time.monotonic()) / 2
        if timer is None:
            note = (
                "statements are not instrumented, so there are no digests; enable "
                "events_statements_history in setup_consumers"
            )
            return {}, [note]
        for table in _TABLES:
            for thread, start, end, text in fetch_rows(cursor, _STATEMENTS.format(table=table)):
                began, ended = (
                    now - (int(timer) - int(t)) * _PICOSECOND
                    for t in (start, end if end is not None else timer)
                )
                statements.setdefault(int(thread), []).append(
                    StatementSpan(began, ended, remove_literals(str(text)))
                )
    except pymysql.Error as error:
        return statements, [f"statements cannot be read: {describe_refusal(error)}"]
    return statements, []


def remove_literals(sql: str) -> str:
    """Return a statement without its literals, like a digest, for servers that make no digests:
    quoted text may be private. Pure.
    """
    return " ".join(_LITERAL.sub(lambda m: m["name"] or "?", sql).split())


def _read_thread_start(process: Process, thread: int) -> float:
    """Read when a thread began (proc_pid_stat(5), field 22: since boot): seconds, CLOCK_MONOTONIC;
    0 if that is not known.
    """
    try:
        started = int(split_stat(process.read_text(f"task/{thread}/stat"))[STARTED])
    except OSError:
        return 0.0
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return started / os.sysconf("SC_CLK_TCK") - slept
