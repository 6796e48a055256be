"""A server that accepts connections and says nothing: how long it is waited for, and what is said."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dballoc.host.process.handle import Process
from dballoc.servers.running import connection, running_server
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.running_server import NoWord, RunningServer


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """A socket of this process that nobody answers."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        yield path


def test_it_is_announced_and_not_waited_for_long(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_GREETING_SECONDS", 2.0)
    monkeypatch.setattr(running_server, "_ANNOUNCE_SECONDS", 0.1)
    server = RunningServer(
        process=Process.own(),
        executable="/usr/sbin/mysqld",
        arguments=(),
        environ={},
        elsewhere=False,
    )
    announced: list[str] = []
    began = time.monotonic()
    with (
        pytest.raises(NoWord, match=r"it does not answer within 2 s$"),
        running_server.talking(
            server, [("socket", silent)], Credentials(user="u"), announced.append
        ),
    ):
        raise AssertionError
    assert 1.9 < time.monotonic() - began < 20
    assert announced == [
        f"process {os.getpid()} (/usr/sbin/mysqld): waiting for its answers over SQL"
    ]


def test_a_stopped_process_is_known() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        handle = Process.open(process.pid)
        try:
            assert not connection._is_stopped(handle)
            process.send_signal(19)
            deadline = time.monotonic() + 10
            while not connection._is_stopped(handle) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert connection._is_stopped(handle)
        finally:
            process.kill()
    assert not connection._is_stopped(handle)
