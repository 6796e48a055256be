"""What a listener sends to ``explain`` when it logs in and asks: a greeting, a switch to another
way to prove who one is, more of it, rows.
"""

import contextlib
import socket
import tempfile
import threading

import pymysql
from example_sql_packets import (
    DECIMAL,
    FULL_LOGIN,
    GREETING,
    LONGLONG,
    OK,
    VARCHAR,
    make_result,
    packet,
)

from dballoc.evidence.sql import server_memory, suspect_counts
from dballoc.host.process.handle import Process
from dballoc.profile.heap import session_owners
from dballoc.servers.running import connection
from dballoc.servers.running.credentials import Credentials

OF = (
    "dballoc.servers.running.connection",
    "dballoc.servers.running.connection",
    "dballoc.servers.running.sql_values",
    "dballoc.evidence.sql.suspect_counts",
)
PRIVILEGED = True

_SECRET = b"a secret that no stranger gets"
_CREDENTIALS = Credentials(user="me", password=_SECRET.decode())
_MOST = 64 << 10  # what a socket keeps without a reader


def seeds() -> list[bytes]:
    ready = packet(2, OK) + packet(1, OK) + packet(1, OK)
    numbers = make_result([LONGLONG, VARCHAR, DECIMAL], [[b"7", b"me", b"1.5"], [b"8", b"", b"-1"]])
    sessions = make_result([LONGLONG] * 2 + [VARCHAR] * 3, [[b"1", b"2", b"me", b"3", b"name"]])
    switch = packet(2, b"\xfemysql_native_password\x00" + b"s" * 20 + b"\x00")
    return [
        GREETING + ready + numbers,
        GREETING + ready + sessions + make_result([LONGLONG], [[b"99"]]),
        GREETING + switch + packet(4, OK) + packet(1, OK) + packet(1, OK) + numbers,
        GREETING + packet(2, FULL_LOGIN) + packet(4, OK),
        GREETING + packet(2, b"\xfedialog\x00\x02Password: ") + packet(4, OK),
        GREETING + packet(2, b"\xfeclient_ed25519\x00" + b"s" * 32),
        GREETING + packet(2, b"\xfemysql_clear_password\x00"),
        GREETING + packet(2, b"\xfesha256_password\x00" + b"s" * 20),
        GREETING + packet(2, b"\xff\x15\x04#28000Access denied"),
        GREETING + packet(2, OK) + packet(1, b"\xfb/etc/passwd"),
    ]


def fuzz(data: bytes) -> None:
    received: list[bytes] = []
    with (
        tempfile.TemporaryDirectory() as directory,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = f"{directory}/s"
        listener.bind(path)
        listener.listen(1)
        thread = threading.Thread(target=_serve, args=(listener, data[:_MOST], received))
        thread.start()
        try:
            _ask(path)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
    # A stranger gets no password, whatever it asks for; nor a file of ours.
    assert _SECRET not in b"".join(received)
    assert b"root:" not in b"".join(received)


def _serve(listener: socket.socket, data: bytes, received: list[bytes]) -> None:
    """Send all, and note what comes, to the first who connects."""
    with contextlib.suppress(OSError):
        talk, _ = listener.accept()
        with talk:
            talk.settimeout(10)
            talk.sendall(data)
            talk.shutdown(socket.SHUT_WR)
            while piece := talk.recv(65536):
                received.append(piece)


def _ask(path: str) -> None:
    try:
        connected = connection.connect(Process.own(), path, _CREDENTIALS)
    except connection.NoConnection as error:
        assert str(error)
        return
    refusals = (*connection.BROKEN, pymysql.Error)
    with contextlib.suppress(*refusals), connected, connected.cursor() as cursor:
        session_owners.read_sessions(cursor, Process.own())
        suspect_counts.query_counts(cursor, mariadb=True, seconds=1.0)
        server_memory.query_server_memory(cursor)
