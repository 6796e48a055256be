"""Whose memory it is: samples joined with sessions."""

from collections.abc import Sequence

import pymysql
import pytest

from dballoc.host.process.handle import Process
from dballoc.profile.heap import session_owners
from dballoc.profile.heap.probe_snapshot import SampledBlock
from dballoc.profile.heap.session_owners import UNKNOWN, ServerThread, StatementSpan


def block(thread: int, time: float) -> SampledBlock:
    return SampledBlock(16, 100, 100, 1024, time, 1, thread)


SESSIONS = {
    5: ServerThread(
        user="app",
        connection=11,
        name="thread/sql/one_connection",
        born=10.0,
        statements=[StatementSpan(12.0, 13.0, "SELECT ?"), StatementSpan(14.0, 20.0, "INSERT")],
    ),
    6: ServerThread(user=None, connection=None, name="thread/innodb/io_read", born=1.0),
}


@pytest.mark.parametrize(
    ("what", "thread", "time", "expected"),
    [
        ("user", 5, 15.0, "app"),
        ("user", 5, 9.0, UNKNOWN),  # before this thread was born: another had its number
        ("user", 6, 15.0, "(the server's own: thread/innodb/io_read)"),
        ("user", 7, 15.0, UNKNOWN),
        ("connection", 5, 15.0, "11 app"),
        ("connection", 6, 15.0, "(the server's own: thread/innodb/io_read)"),
        ("digest", 5, 12.5, "SELECT ?"),
        ("digest", 5, 15.0, "INSERT"),
        ("digest", 5, 13.5, UNKNOWN),  # between two statements
        ("digest", 6, 15.0, UNKNOWN),
    ],
)
def test_who(what: str, thread: int, time: float, expected: str) -> None:
    assert session_owners.FIND_OWNER[what](SESSIONS, block(thread, time)) == expected


class Cursor:
    """A server that knows some statements; None: it refuses."""

    def __init__(self, answers: dict[str, Sequence[tuple] | None]) -> None:
        self.answers = answers

    def execute(self, sql: str) -> None:
        found = [rows for word, rows in self.answers.items() if word in sql]
        if not found or found[0] is None:
            raise pymysql.err.ProgrammingError(1146, "refused")
        self.rows = found[0]

    def fetchall(self) -> Sequence[tuple]:
        return self.rows


def test_without_performance_schema_the_process_list_tells() -> None:
    cursor = Cursor(
        {
            "performance_schema.threads": [],
            "PROCESSLIST WHERE TID": [(123456789, None, "app", 3, "Query")],
        }
    )
    sessions, notes = session_owners.read_sessions(cursor, Process.own())  # type: ignore[arg-type]
    assert sessions[123456789].user == "app"
    assert "performance_schema is off" in notes[0]


def test_statements_run_on_our_clock() -> None:
    import time

    second = 10**12
    cursor = Cursor(
        {
            "CONNECTION_ID()": [(500 * second,)],
            "events_statements_current": [(7, 490 * second, None, "SELECT  ?\n FROM t")],
            "events_statements_history_long": None,
            "events_statements_history": [(7, 480 * second, 485 * second, "BEGIN")],
            "performance_schema.threads": [(123456789, 7, "app", 3, "thread/sql/one_connection")],
        }
    )
    sessions, notes = session_owners.read_sessions(cursor, Process.own())  # type: ignore[arg-type]
    now = time.monotonic()
    running, ended = sessions[123456789].statements
    assert (running.digest, ended.digest) == ("SELECT ? FROM t", "BEGIN")
    assert running.start == pytest.approx(now - 10, abs=0.5)
    assert running.end == pytest.approx(now, abs=0.5)
    assert ended.end == pytest.approx(now - 15, abs=0.5)
    assert "statements cannot be read" in notes[0]
