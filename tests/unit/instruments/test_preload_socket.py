"""Sockets that only look like a preload's: who listens is compared before a word is said, and what is
said is bounded.
"""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process.handle import Process
from dballoc.instruments.ways_in import preload_socket
from dballoc.instruments.ways_in.preload_socket import (
    HEAP_PROBE,
    PreloadSocket,
    find_preload_in_directory,
)

MIB = 1 << 20


class Listener:
    """Listens as a socket of this name; ``answer`` is sent to whoever asks, again and again."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self.answer, self.received, self.sent = answer, b"", 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(50)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                talk, _ = self._socket.accept()
                with talk:
                    self.received += talk.recv(100)
                    while self.answer and self.received and self.sent < 256 * MIB:
                        self.sent += talk.send(self.answer)
                    if not self.answer:
                        talk.recv(1)
            except OSError:
                if self._socket.fileno() < 0:
                    return

    def close(self) -> None:
        """End it."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Callable[..., Listener]]:
    """``listen("12.sock", b"answer")`` in the temporary directory."""
    listeners: list[Listener] = []

    def start(name: str, answer: bytes = b"") -> Listener:
        listeners.append(Listener(tmp_path / name, answer))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.close()


def test_an_impostor_is_not_spoken_to(tmp_path: Path, listen: Callable[..., Listener]) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        impostor = listen(f"{other.pid}.sock", b"interval 1\n")
        with pytest.raises(UsageError, match="no probe listens there"):
            find_preload_in_directory(tmp_path, HEAP_PROBE)
        with pytest.raises(Failure, match=f"process {os.getpid()} answers there"):
            PreloadSocket(
                kind=HEAP_PROBE,
                process=Process.open(other.pid),
                root=tmp_path,
                path=f"{other.pid}.sock",
            ).ask("status")
        other.kill()
    assert impostor.received == b""


def test_an_endless_status_is_read_no_further_than_a_preloads(
    tmp_path: Path, listen: Callable[..., Listener]
) -> None:
    name = f"{os.getpid()}.sock"
    impostor = listen(name, b"interval 1\n" * 1000)
    began = time.monotonic()
    with pytest.raises(UsageError, match="no probe listens there"):
        find_preload_in_directory(tmp_path, HEAP_PROBE)
    with pytest.raises(Failure, match="longer than any preload's"):
        PreloadSocket(kind=HEAP_PROBE, process=Process.own(), root=tmp_path, path=name).ask(
            "status"
        )
    assert time.monotonic() - began < 10
    assert impostor.received == b"status\n" * 2
    assert impostor.sent < 4 * MIB, "what fits into buffers"


def test_all_sockets_of_a_directory_have_one_deadline(
    tmp_path: Path, listen: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preload_socket, "_DIRECTORY_SECONDS", 0.5)
    numbers = iter(range(100, 140))
    monkeypatch.setattr(preload_socket, "_read_inner_pid", lambda _: next(numbers))
    for number in range(100, 140):
        listen(f"{number}.sock")
    began = time.monotonic()
    with pytest.raises(UsageError, match="no probe listens there"):
        find_preload_in_directory(tmp_path, HEAP_PROBE)
    assert time.monotonic() - began < 5
