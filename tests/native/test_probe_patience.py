"""How long the heap probe waits for clients that do not write, or do not read: it waits by the clock,
so this shares the CPUs with other tests.
"""

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import (
    Start,
    connect_to,
    probed,
    read_to_the_end,
    socket_path,
    starting,
    wait_for_probe,
)

from dballoc.profile.heap import probe_client


@pytest.fixture
def environ(native_library: Callable[[str], Path], tmp_path: Path) -> dict[str, str]:
    """Of a program under the probe over glibc's malloc."""
    return {"LD_PRELOAD": str(native_library("probe")), probe_client.VARIABLE: f"1024:{tmp_path}"}


@pytest.fixture
def start() -> Iterator[Start]:
    with starting() as begin:
        yield begin


def test_silent_clients_hold_nobody_for_long(
    tmp_path: Path, start: Start, environ: dict[str, str]
) -> None:
    start(probed(tmp_path), "leak", **environ)
    there = wait_for_probe(tmp_path)
    silent = [connect_to(socket_path(there)) for _ in range(3)]
    slow, _, idle = silent
    for _ in range(200):
        try:
            slow.sendall(b"s")
            time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            break
    else:
        pytest.fail("a client with a byte now and then is waited for without end")
    assert there.status()["pid"] > 0
    assert read_to_the_end(idle) == b"error the request is not one line\n"
    for talk in silent:
        talk.close()


def test_a_client_that_does_not_read_is_left_alone(
    tmp_path: Path, start: Start, environ: dict[str, str]
) -> None:
    start(probed(tmp_path), "known", **environ)
    there = wait_for_probe(tmp_path)
    with connect_to(socket_path(there)) as talk:
        talk.sendall(b"snapshot\n")
        assert talk.recv(8) == b"DBALLOCP"
        assert there.status()["pid"] > 0
        assert not read_to_the_end(talk).endswith(b"END." + struct.pack("=I", 0))
