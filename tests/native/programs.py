"""Programs to look at: compiled from the sources beside this file, started, and ended by the end of
their input.
"""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from machine import MACHINE

from dballoc.ground.errors import Failure, UsageError
from dballoc.host.process.handle import Process
from dballoc.instruments.ways_in.preload_socket import (
    HEAP_PROBE,
    PreloadSocket,
    find_preload_in_directory,
)
from dballoc.profile.heap.probe_client import Probe

HERE = Path(__file__).parent
# Seconds. Generous: what is waited for comes at once on a machine that has time.
LONGEST = 60


@dataclass(frozen=True)
class Ready:
    """A program that waits; ``said``: the lines that it has printed before ``ready``."""

    process: "subprocess.Popen[str]"
    said: list[str]

    @property
    def pid(self) -> int:
        return self.process.pid


Start = Callable[..., Ready]


def compiled(name: str, directory: Path, *flags: object) -> Path:
    """``NAME.c`` as a program in that directory."""
    target = directory / name
    usual = ["-std=c17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    MACHINE.compile("cc", target, *usual, HERE / f"{name}.c", *flags)
    return target


def probed(directory: Path, *flags: object) -> Path:
    """``probed.c``, whose stacks can be walked, and whose calls of malloc are all made."""
    return compiled(
        "probed",
        directory,
        "-g",
        "-fno-omit-frame-pointer",
        "-fno-builtin-malloc",
        "-l:libstdc++.so.6",
        *flags,
    )


def wait_for_probe(directory: Path) -> Probe:
    """The one probe that listens there, once it does: its socket has a name before it listens."""
    deadline = time.monotonic() + LONGEST
    while True:
        try:
            return Probe(find_preload_in_directory(directory, HEAP_PROBE))
        except (UsageError, Failure):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def open_probe(path: Path, pid: int) -> Probe:
    """The probe of a process that listens at a path."""
    process = Process.open(pid)
    return Probe(PreloadSocket(kind=HEAP_PROBE, process=process, root=path.parent, path=path.name))


def connect_to(path: Path) -> socket.socket:
    talk = socket.socket(socket.AF_UNIX)
    talk.settimeout(LONGEST)
    talk.connect(str(path))
    return talk


def socket_path(probe: Probe) -> Path:
    return probe.place.root / probe.place.path


def read_to_the_end(talk: socket.socket) -> bytes:
    parts = []
    try:
        while part := talk.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@contextmanager
def starting() -> Iterator[Start]:
    """``start(*command, NAME=…)`` of a program and its arguments, with no other variables than
    these and PATH.
    """
    started: list[subprocess.Popen[str]] = []

    def start(*command: object, **variables: str) -> Ready:
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], **variables},
        )  # fmt: skip
        started.append(process)
        assert process.stdout
        said = []
        while (line := process.stdout.readline()) != "ready\n":
            assert line, "it has ended"
            said.append(line)
        return Ready(process, said)

    try:
        yield start
    finally:
        for process in started:
            if process.poll() is None:
                process.communicate("", timeout=10)
    assert [process.returncode for process in started] == [0] * len(started)
