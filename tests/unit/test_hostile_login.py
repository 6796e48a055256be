"""What a listener that is no honest server can do to the connection that explain makes: send more
than is read, say nothing, or ask for TLS, behind which no bound would hold.
"""

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dballoc.servers.running import connection
from dballoc.servers.running.credentials import Credentials

# Capability flags of the protocol (https://dev.mysql.com/doc/dev/mysql-server/latest/
# group__group__mysql__capabilities__flags.html).
PROTOCOL_41, TLS, SECURE, PLUGIN_AUTH = 1 << 9, 1 << 11, 1 << 15, 1 << 19
OFFERED = PROTOCOL_41 | TLS | SECURE | PLUGIN_AUTH
FULL_LOGIN = b"\x01\x04"
OK = b"\x00\x00\x00\x02\x00\x00\x00"

Listen = Callable[[Callable[[socket.socket], None]], str]


def packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


GREETING = packet(
    0,
    b"\x0a8.4.0\x00"
    + struct.pack("<I", 1)
    + b"saltsalt\x00"
    + struct.pack("<HBHHB", OFFERED & 0xFFFF, 255, 2, OFFERED >> 16, 21)
    + bytes(10)
    + b"saltsaltsalt\x00caching_sha2_password\x00",
)


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    """``listen(answer)``: the path of a socket on which ``answer`` has the first connection."""
    threads: list[threading.Thread] = []
    listener = socket.socket(socket.AF_UNIX)

    def start(answer: Callable[[socket.socket], None]) -> str:
        path = str(tmp_path / "s")
        listener.bind(path)
        listener.listen(1)

        def serve() -> None:
            talk, _ = listener.accept()
            with talk:
                try:
                    talk.sendall(GREETING)
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


def log_in(path: str, password: str | None = None, trusted: bool = False) -> None:
    connection.connect(
        os.getpid(), path, Credentials(user="me", password=password), trusted
    ).close()


def test_tls_is_not_taken_up(listen: Listen) -> None:
    flags: list[int] = []

    def note_flags(talk: socket.socket) -> None:
        flags.append(struct.unpack_from("<I", talk.recv(4096), 4)[0])

    with pytest.raises(connection.NoConnection):
        log_in(listen(note_flags))
    assert flags
    assert not flags[0] & TLS


def test_the_password_goes_to_the_socket_of_a_trusted_server(listen: Listen) -> None:
    received: list[bytes] = []

    def ask_for_password(talk: socket.socket) -> None:
        talk.recv(4096)
        talk.sendall(packet(2, FULL_LOGIN))
        received.append(talk.recv(4096))
        talk.sendall(packet(4, OK))
        talk.recv(4096)

    with pytest.raises(connection.NoConnection):  # it hangs up at the first statement
        log_in(listen(ask_for_password), "secret", trusted=True)
    assert received == [packet(3, b"secret\x00")]


def test_more_than_is_read(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    def flood(talk: socket.socket) -> None:
        while True:
            talk.sendall(packet(2, bytes(1 << 20)))

    monkeypatch.setattr(connection.BoundedSocket, "most_bytes", 1 << 20)
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
