"""Causes of memory use, planted on a private server: each is there for as long as its block, and
its bytes are known, because they follow from what was sent or are what the server counts.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.cursors import SSCursor
from report_cases.private_server import PrivateServer

MIB = 1 << 20
# Sessions of a cause that is one block a session.
SESSIONS = 12
BLOCK = 14_000_000
Plant = Callable[[PrivateServer, ExitStack], None]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """``words``: how it is rightly named, a pattern; ``options``: what its server is started with;
    ``plant``: makes it, with what holds it on a stack; ``families``: servers that can have it.
    """

    name: str
    words: str
    plant: Plant
    options: tuple[str, ...] = ()
    families: tuple[str, ...] = ("mariadb", "mysql")


@contextmanager
def plant(cause: Cause, server: PrivateServer) -> Iterator[int]:
    """Plant a cause; yields the bytes by which RSS has risen."""
    # What a first look and a first connection need is no part of the cause.
    server.explain()
    server.query("CREATE DATABASE a")
    before = server.measure_rss()
    with ExitStack() as held:
        cause.plant(server, held)
        time.sleep(0.5)
        yield server.measure_rss() - before


def _connect(server: PrivateServer, held: ExitStack, **settings: Any) -> Any:
    settings = {"database": "a", "max_allowed_packet": 64 * MIB, **settings}
    return held.enter_context(_hang_up(server.connect(**settings)))


@contextmanager
def _hang_up(connection: Any) -> Iterator[Any]:
    """End a connection without reading what the server still sends."""
    try:
        yield connection
    finally:
        if connection._result is not None:
            connection._result.unbuffered_active = False
            connection._result = None
        if connection._sock is not None:
            connection._sock.shutdown(socket.SHUT_RDWR)
            connection._force_close()


def _execute(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _hold_result(server: PrivateServer, held: ExitStack, *statements: str) -> None:
    """Send statements in a session; the result of the last one is not read, so its buffers stay."""
    connection = _connect(server, held, cursorclass=SSCursor)
    cursor = connection.cursor()
    for statement in statements[:-1]:
        cursor.execute(statement)
        cursor.fetchall()
    cursor.execute(statements[-1])
    # A cursor that is collected reads the rest of its result.
    held.callback(lambda: cursor)


def _fill_table(server: PrivateServer, table: str, rows: int, engine: str = "InnoDB") -> None:
    """Make a table of so many rows (a multiple of 1,000) of 1,000 bytes."""
    with server.connect(database="a") as connection:
        _execute(
            connection,
            f"CREATE TABLE {table} (id INT, v CHAR(250), w VARCHAR(700)) ENGINE={engine} "
            "CHARSET=latin1",
            "SET autocommit = 0",
        )
        for first in range(0, rows, 1000):
            values = ", ".join(
                f"({i * 7919 % rows}, '{i:x}', '{i:x}{'w' * 690}')"
                for i in range(first, first + 1000)
            )
            _execute(connection, f"INSERT INTO {table} VALUES {values}")
        connection.commit()


def _fill_memory_table(server: PrivateServer, held: ExitStack) -> None:
    connection = _connect(server, held)
    _execute(
        connection,
        "CREATE TABLE m (id INT PRIMARY KEY, v CHAR(200)) ENGINE=MEMORY CHARSET=latin1",
    )
    for first in range(0, 600_000, 20_000):
        rows = ", ".join(f"({i}, 'x')" for i in range(first, first + 20_000))
        _execute(connection, f"INSERT INTO m VALUES {rows}")


def _prepare_statements(server: PrivateServer, held: ExitStack) -> None:
    connection = _connect(server, held)
    _execute(connection, "CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(100))")
    for i in range(6000):
        _execute(
            connection,
            f"PREPARE s{i} FROM 'SELECT a, b, c, {i} FROM t WHERE a=? AND b IN (?,?,?,?) ORDER BY"
            " c'",
        )


def _open_triggers(server: PrivateServer, held: ExitStack) -> None:
    owner = _connect(server, held)
    _execute(owner, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))")
    body = " ".join(
        f"IF NEW.v = 'zz{i}' THEN SET @x{i} = CONCAT(NEW.v, '{'y' * 20}{i}', COALESCE(@x{i}, 'a'));"
        " END IF;"
        for i in range(400)
    )
    for i in range(3):
        _execute(owner, f"CREATE TRIGGER g{i} BEFORE INSERT ON t FOR EACH ROW BEGIN {body} END")
    connections = [_connect(server, held) for _ in range(30)]
    for connection in connections:
        # Sent and not waited for: all of them have the table open at the same time.
        connection._execute_command(
            pymysql.constants.COMMAND.COM_QUERY,
            "INSERT INTO t (v) SELECT 'b' FROM (SELECT SLEEP(4)) x",
        )
    for connection in connections:
        connection._read_query_result()


def _call_procedures(server: PrivateServer, held: ExitStack) -> None:
    owner = _connect(server, held)
    body = " ".join(f"IF x={i} THEN SET x=x+{i}; END IF;" for i in range(60))
    for i in range(60):
        _execute(owner, f"CREATE PROCEDURE p{i}() BEGIN DECLARE x INT; {body} END")
    for _ in range(6):
        _execute(_connect(server, held), *(f"CALL p{i}()" for i in range(60)))


def _send_packets(server: PrivateServer, held: ExitStack) -> None:
    for _ in range(SESSIONS):
        _execute(_connect(server, held), f"SELECT LENGTH('{'x' * BLOCK}')")


def _open_tables(server: PrivateServer, held: ExitStack) -> None:
    owner = _connect(server, held)
    for i in range(8):
        _execute(
            owner,
            # Of a wide row each open table has buffers.
            f"CREATE TABLE p{i} (id INT PRIMARY KEY, a INT, b VARCHAR(50), c VARCHAR(60000), "
            "KEY (a), KEY (b)) ENGINE=InnoDB CHARSET=latin1 PARTITION BY HASH (id) PARTITIONS 60",
        )
    for _ in range(30):
        connection = _connect(server, held)
        _execute(connection, *(f"HANDLER p{i % 8} OPEN AS h{i}" for i in range(24)))


def _write_transactions(server: PrivateServer, held: ExitStack) -> None:
    _execute(_connect(server, held), "CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    for i in range(8):
        # Made in the server: a literal would leave a network buffer of its size besides.
        _execute(
            _connect(server, held), "BEGIN", f"INSERT INTO t VALUES ({i}, REPEAT('x', {BLOCK}))"
        )


def _sort(server: PrivateServer, held: ExitStack) -> None:
    _fill_table(server, "t", 30_000)
    for _ in range(8):
        _hold_result(server, held, "SELECT id, w FROM t ORDER BY id")


def _join(server: PrivateServer, held: ExitStack) -> None:
    _fill_table(server, "t", 20_000)
    for _ in range(6):
        _hold_result(server, held, "SELECT x.w, y.w FROM t x JOIN t y ON x.id = y.id")


def _keep_temporary_tables(server: PrivateServer, held: ExitStack) -> None:
    _fill_table(server, "t", 60_000)
    for _ in range(6):
        _hold_result(server, held, "SELECT SQL_BUFFER_RESULT id, v FROM t")


def _set_variables(server: PrivateServer, held: ExitStack) -> None:
    for _ in range(SESSIONS):
        _execute(_connect(server, held), f"SET @a = REPEAT('x', {BLOCK})")


def _add_key_cache(server: PrivateServer, held: ExitStack) -> None:
    _fill_table(server, "k", 60_000, "MyISAM")
    _execute(
        _connect(server, held),
        "SET GLOBAL hot.key_buffer_size = 134217728",
        "ALTER TABLE k ADD KEY (w), ADD KEY (v)",
        "CACHE INDEX k IN hot",
        "LOAD INDEX INTO CACHE k",
    )


def _scan_tables(server: PrivateServer, held: ExitStack) -> None:
    _fill_table(server, "k", 40_000, "MyISAM")
    for _ in range(8):
        _hold_result(server, held, "SELECT * FROM k")


CAUSES = (
    Cause(
        name="memory tables",
        words="MEMORY",
        plant=_fill_memory_table,
        options=("--max-heap-table-size=1G",),
    ),
    Cause(
        name="prepared statements",
        words="prepared statement",
        plant=_prepare_statements,
        options=("--max-prepared-stmt-count=100000",),
    ),
    Cause(
        name="triggers",
        words="trigger",
        plant=_open_triggers,
        options=("--table-open-cache=2000", "--table-open-cache-instances=1"),
    ),
    Cause(
        name="stored programs",
        words="stored program|stored_program_cache",
        plant=_call_procedures,
        options=("--stored-program-cache=4096",),
    ),
    Cause(
        name="network buffers",
        words="network buffer|max_allowed_packet",
        plant=_send_packets,
        options=("--max-allowed-packet=64M",),
    ),
    Cause(
        name="open tables",
        words="open tables|table_open_cache",
        plant=_open_tables,
        options=("--table-open-cache=8000", "--table-definition-cache=4000"),
    ),
    Cause(
        name="binary log caches",
        words="binlog_cache_size|binary log cache",
        plant=_write_transactions,
        options=(
            "--log-bin=b",
            "--server-id=1",
            "--binlog-format=ROW",
            "--binlog-cache-size=16M",
            "--max-allowed-packet=64M",
            "--innodb-buffer-pool-size=64M",
        ),
    ),
    Cause(
        name="sort buffers",
        words="sort_buffer_size",
        plant=_sort,
        options=("--sort-buffer-size=32M",),
        families=("mysql",),
    ),
    Cause(
        name="join buffers",
        words="join_buffer_size",
        plant=_join,
        options=("--join-buffer-size=32M", "--loose-join-buffer-space-limit=1G"),
    ),
    Cause(
        name="temporary tables",
        words="tmp_table_size|temptable_max_ram|temporary table",
        plant=_keep_temporary_tables,
        options=("--tmp-table-size=64M", "--max-heap-table-size=64M"),
    ),
    Cause(
        name="user variables",
        words="user variable",
        plant=_set_variables,
        options=("--max-allowed-packet=64M",),
    ),
    Cause(name="key caches", words="key.cache|key_buffer_size", plant=_add_key_cache),
    Cause(
        name="read buffers",
        words="read_buffer_size",
        plant=_scan_tables,
        options=("--read-buffer-size=16M",),
        # MySQL's scans have none (1.8 MiB for 8 of them).
        families=("mariadb",),
    ),
)
