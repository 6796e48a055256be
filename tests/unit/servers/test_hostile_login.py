"""What a listener that is no honest server can do to the connection that explain makes: send more
than is read, say nothing, read nothing, ask for TLS, behind which no bound would hold, or answer
with what takes the client library much more time or memory than it took to send.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from example_sql_packets import (
    DECIMAL,
    FULL_LOGIN,
    GREETING,
    LONGLONG,
    OK,
    TLS,
    VARCHAR,
    make_column,
    make_result,
    packet,
)

from dballoc.host.abandonable import look_limits
from dballoc.host.process.handle import Process
from dballoc.servers.running import connection
from dballoc.servers.running.connection import BoundedSocket
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.password_trust import Decision, Trust
from hostile_files import HostileFile, HostileFiles

Listen = Callable[..., str]


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    """``listen(answer)``: the path of a socket on which ``answer`` has the first connection, after
    a greeting.
    """
    threads: list[threading.Thread] = []
    listener = socket.socket(socket.AF_UNIX)

    def start(answer: Callable[[socket.socket], None], greeting: bytes = GREETING) -> str:
        path = str(tmp_path / "s")
        listener.bind(path)
        listener.listen(1)

        def serve() -> None:
            talk, _ = listener.accept()
            with talk:
                try:
                    talk.sendall(greeting)
                    answer(talk)
                except OSError:
                    pass  # the other side has hung up, as it should

        threads.append(threading.Thread(target=serve))
        threads[0].start()
        return path

    yield start
    listener.close()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


@pytest.fixture
def trust(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trust], None]:
    """``trust(Trust.ANSWER)``: what any server may get of a password."""

    def set_trust(trust: Trust) -> None:
        decision = Decision(trust=trust, reason="because")
        monkeypatch.setattr(connection, "_decide", lambda *_: decision)

    return set_trust


def log_in(path: str, password: str | None = None) -> None:
    connection.connect(Process.own(), path, Credentials(user="me", password=password)).close()


def test_tls_is_not_taken_up(listen: Listen) -> None:
    flags: list[int] = []

    def note_flags(talk: socket.socket) -> None:
        flags.append(struct.unpack_from("<I", talk.recv(4096), 4)[0])

    with pytest.raises(connection.NoConnection):
        log_in(listen(note_flags))
    assert flags
    assert not flags[0] & TLS


def ask(*questions: bytes, received: list[bytes]) -> Callable[[socket.socket], None]:
    """Answer a login with questions, one packet each, and keep what comes for each."""

    def answer(talk: socket.socket) -> None:
        talk.recv(4096)
        number = 2
        for question in questions:
            talk.sendall(packet(number, question))
            received.append(talk.recv(4096)[4:])
            number += 2
        talk.sendall(packet(number, OK))
        talk.recv(4096)

    return answer


def test_the_password_goes_to_a_unit_of_this_host(
    listen: Listen, trust: Callable[[Trust], None]
) -> None:
    trust(Trust.CLEAR_TEXT)
    received: list[bytes] = []
    with pytest.raises(connection.NoConnection):  # it hangs up at the first statement
        log_in(listen(ask(FULL_LOGIN, received=received)), "secret")
    assert received == [b"secret\x00"]


SALT = b"x" * 20 + b"\0"
KEY = b"\x01-----BEGIN PUBLIC KEY-----\n"


@pytest.mark.parametrize(
    "questions",
    [
        [FULL_LOGIN],
        [FULL_LOGIN, KEY],
        [b"\xfemysql_clear_password\0"],
        [b"\xfedialog\0\x02Password: "],
        [b"\xfesha256_password\0" + SALT, KEY],
        [b"\xfecaching_sha2_password\0" + SALT, FULL_LOGIN, KEY],
        [b"\xfemysql_old_password\0" + SALT],
        [b"\xfewhat\nwas that\0" + SALT],
    ],
    ids=repr,
)
def test_another_gets_neither_the_password_nor_the_way_to_it(
    listen: Listen, trust: Callable[[Trust], None], questions: list[bytes]
) -> None:
    """It may answer a challenge; a key of the other side's is as good as no encryption."""
    trust(Trust.ANSWER)
    received: list[bytes] = []
    with pytest.raises(connection.NoConnection) as refused:
        log_in(listen(ask(*questions, received=received)), "secret")
    assert len(str(refused.value).splitlines()) == 1
    assert "because" in str(refused.value)
    # Of caching_sha2_password a scramble of 32 bytes, which is no use without its salt.
    assert all(len(answer) in (0, 32) for answer in received), received
    assert b"secret" not in b"".join(received)


@pytest.mark.parametrize(
    ("plugin", "size"), [("mysql_native_password", 20), ("caching_sha2_password", 32)]
)
def test_another_gets_the_answer_to_a_challenge(
    listen: Listen, trust: Callable[[Trust], None], plugin: str, size: int
) -> None:
    trust(Trust.ANSWER)
    received: list[bytes] = []
    with pytest.raises(connection.NoConnection):
        log_in(listen(ask(b"\xfe" + plugin.encode() + b"\0" + SALT, received=received)), "secret")
    assert [len(answer) for answer in received] == [size]


def test_a_stranger_gets_nothing(listen: Listen, trust: Callable[[Trust], None]) -> None:
    trust(Trust.NOTHING)
    received: list[bytes] = []
    with pytest.raises(connection.NoConnection):
        log_in(listen(ask(b"\xfemysql_native_password\0" + SALT, received=received)), "secret")
    assert received == [b""]


def test_a_number_that_was_anothers_gets_nothing(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener that has ended, and whose number a server got, listened as another user."""
    monkeypatch.setattr(connection, "read_peer", lambda talk: (os.getpid(), os.geteuid() + 1))
    received: list[bytes] = []
    path = listen(ask(b"\xfemysql_native_password\0" + SALT, received=received))
    credentials = Credentials(user="me", password="secret", socket=path)
    with pytest.raises(connection.NoConnection, match=f"process of user {os.geteuid() + 1}"):
        connection.connect(Process.own(), path, credentials)
    assert b"".join(received) == b""


def test_more_than_is_read(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    def flood(talk: socket.socket) -> None:
        while True:
            talk.sendall(packet(2, bytes(1 << 20)))

    monkeypatch.setattr(BoundedSocket, "most_bytes", 1 << 20)
    with pytest.raises(connection.NoConnection):
        log_in(listen(flood))


def test_silence(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    hung_up = threading.Event()

    def say_nothing(talk: socket.socket) -> None:
        talk.recv(4096)
        assert talk.recv(4096) == b""
        hung_up.set()

    monkeypatch.setattr(connection, "_SECONDS", 0.3)
    with pytest.raises(connection.NoConnection):
        log_in(listen(say_nothing))
    assert hung_up.wait(10)


def answer_statements(*answers: bytes) -> Callable[[socket.socket], None]:
    """Let anybody in, and answer the statements, after the one that sets the character set."""

    def answer(talk: socket.socket) -> None:
        talk.recv(4096)
        talk.sendall(packet(2, OK))
        for packets in (packet(1, OK), packet(1, OK), *answers):
            talk.recv(4096)
            talk.sendall(packets)
        talk.recv(4096)

    return answer


def fetch(path: str) -> tuple[tuple, ...]:
    credentials = Credentials(user="me")
    with (
        connection.connect(Process.own(), path, credentials) as connected,
        connected.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        return cursor.fetchall()


def test_a_listener_that_asks_and_reads_nothing(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin ``dialog`` makes the library send the password at each prompt."""

    def ask_for_ever(talk: socket.socket) -> None:
        talk.recv(4096)
        talk.sendall(packet(2, b"\xfedialog\x00\x02Password: "))
        number = 4
        while True:
            talk.sendall(packet(number, b"\x02Password: "))
            number += 2

    monkeypatch.setattr(connection, "_SECONDS", 0.5)
    with pytest.raises(connection.NoConnection):
        log_in(listen(ask_for_ever))


@pytest.mark.parametrize("length", range(len(GREETING) - 4))
def test_a_greeting_that_is_cut_short(listen: Listen, length: int) -> None:
    with pytest.raises(connection.NoConnection):
        log_in(listen(lambda talk: None, packet(0, GREETING[4 : 4 + length])))


def test_values_of_an_honest_server(listen: Listen) -> None:
    row = [b"-7", b"18446744073709551616", b"1.5", "ü".encode()]
    answer = answer_statements(make_result([LONGLONG, DECIMAL, DECIMAL, VARCHAR], [row]))
    assert fetch(listen(answer)) == ((-7, 2**64, 1.5, "ü"),)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (DECIMAL, b"1E+999999999"),  # int() of it does not end, nor can it be interrupted
        (DECIMAL, b"sNaN"),
        (DECIMAL, b"9" * 66),
        (LONGLONG, b"9" * 4000),  # no real number has so many digits
        (5, b"inf"),
    ],
)
def test_numbers_that_no_machine_has(listen: Listen, kind: int, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"beyond|not a"):
        fetch(listen(answer_statements(make_result([kind], [[value]]))))


def test_a_column_without_a_name(listen: Listen) -> None:
    packets = packet(1, b"\x01") + packet(2, b"\xfb" * 6)
    with pytest.raises(connection.BROKEN):
        fetch(listen(answer_statements(packets)))


def test_more_columns_than_any_table_has(listen: Listen) -> None:
    columns = b"".join(packet(number, make_column(VARCHAR)) for number in range(2, 10_003))
    count = packet(1, b"\xfd" + struct.pack("<I", 10_001)[:3])
    with pytest.raises(ValueError, match="columns"):
        fetch(listen(answer_statements(count + columns)))


@pytest.mark.parametrize("message", [b"", b" x\ny" * 100_000])
def test_a_refusal_is_one_line_and_not_long(listen: Listen, message: bytes) -> None:
    def refuse(talk: socket.socket) -> None:
        talk.recv(4096)
        talk.sendall(packet(2, b"\xff\x15\x04#28000" + message))

    with pytest.raises(connection.NoConnection) as refused:
        log_in(listen(refuse))
    assert 0 < len(str(refused.value)) <= 300
    assert "\n" not in str(refused.value)


def test_a_socket_whose_path_never_answers(
    hostile_files: HostileFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse")
    monkeypatch.setenv(look_limits.VARIABLE, "1.5")
    path = hostile_files.put("s.sock", HostileFile(waits=("getattr",)))
    began = time.monotonic()
    with pytest.raises(connection.NoConnection, match=r"did not answer within 0\.2 s"):
        connection.connect(Process.own(), str(path), Credentials(user="me", password=None))
    assert connection._listener(str(path)) == 0
    assert time.monotonic() - began < 10


def test_another_process_with_the_same_number(listen: Listen) -> None:
    earlier = replace(Process.own(), started=1, pidfd=None)
    received: list[bytes] = []
    path = listen(ask(b"\xfemysql_native_password\0" + SALT, received=received))
    with pytest.raises(connection.NoConnection, match="another process may have its number now"):
        connection.connect(earlier, path, Credentials(user="me", password=None))
    assert b"".join(received) == b""
