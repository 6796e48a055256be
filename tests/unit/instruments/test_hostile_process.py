"""A process that chooses its name, its environment, its files and what its probe says: nothing of
that is taken for the kernel's.
"""

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.elf import loader
from dballoc.host.process import process_root
from dballoc.host.process.handle import Process
from dballoc.host.resources import process_limits
from dballoc.host.settings import thp
from dballoc.instruments import memory_marks
from dballoc.instruments.process_sampler import ProcessSampler
from dballoc.instruments.ways_in import preload_socket
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, PreloadSocket
from dballoc.process import smaps
from dballoc.process.malloc import identify_malloc
from dballoc.profile.heap import probe_client
from dballoc.servers.running import running_server

# It names itself (prctl(2), PR_SET_NAME: 15 bytes), maps a file whose name has all that ends a line
# but a newline, and waits.
PROGRAM = """
import ctypes, mmap, os, sys
ctypes.CDLL(None).prctl(15, sys.argv[1].encode("utf-8", "surrogateescape"), 0, 0, 0)
name = os.fsencode(sys.argv[2]) + b"/a\\x0b\\x0c\\x1c\\x85\\xe2\\x80\\xa8\\rVmRSS:\\t 9 kB\\n7f0000000000-7f0000001000 rw-p 0 0 0"
with open(name, "w+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 4096)
print("ready", flush=True)
sys.stdin.read()
"""
NAMES = [
    "a) R 1 1 (b",
    "x\x0bUid:\t0\t0",
    "\udcff\udcfe\x85\r",
    "\x0cVmRSS:\t 1 kB",
    "\x1b[2J\u2028Uid:\t0",
    "a\nVmRSS:\t1 kB",
    "",
    " ",
    ")))))",
]


@pytest.fixture(params=NAMES, ids=ascii)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Process]:
    """Its PID. Its environment has 1.9 MB, nearly all that the kernel lets a program start with."""
    environment = {
        **os.environ,
        **{f"V{i}": "x" * 100_000 for i in range(19)},
        "B": "\udcff\n=",
        "DBALLOC_PROBE": "1:/\udcff",
    }
    words = [sys.executable, "-c", PROGRAM, request.param, os.fspath(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        yield Process.open(child.pid)
        child.communicate("", timeout=20)


def test_what_is_said_of_it_is_the_kernels_word(hostile: Process) -> None:
    status = smaps.read_status_sizes(hostile)
    assert 2**20 < status["VmRSS"] < 2**32
    assert process_root.describe_namespaces(hostile) is None  # in our namespaces, and our user
    sampler = ProcessSampler(hostile)
    try:
        assert 2**20 < sampler.sample(every_thread=True).rss < 2**32
    finally:
        sampler.close()
    found = smaps.read_smaps(hostile)
    kernels = subprocess.run(
        ["wc", "-l", hostile.home / "maps"], capture_output=True, text=True, check=True
    ).stdout
    assert len(found) == int(kernels.split()[0])
    assert sum(mapping.path.count("VmRSS") for mapping in found) == 1
    assert memory_marks.take_mark(hostile).mappings == len(found)
    assert process_limits.read_limits(hostile).cpus > 0
    thp.describe_process_mode(hostile)
    loader.find_main_program(hostile)
    identify_malloc.read_ld_preload(hostile)


def test_verbs_that_do_not_want_it_say_so_in_one_line(hostile: Process) -> None:
    for ask in (running_server.look, probe_client.find_probe_of_process):
        with pytest.raises(UsageError) as refused:
            ask(hostile)
        said = str(refused.value)
        assert str(hostile.pid) in said


def test_no_more_is_read_than_a_process_has_by_right(tmp_path: Path) -> None:
    (tmp_path / "environ").write_bytes(b"x" * 100)
    assert readers.of_process(tmp_path / "environ", 100) == b"x" * 100
    with pytest.raises(OSError, match="so it is not read") as refused:
        readers.of_process(tmp_path / "environ", 99)
    assert refused.value.errno == errno.EFBIG
    # The largest file of all: no end, and no size.
    with pytest.raises(OSError, match="so it is not read"):
        readers.of_process("/dev/zero")


Serve = Callable[[Callable[[socket.socket], None]], probe_client.Probe]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """``serve(answer)``: a probe whose socket is answered so."""
    listener = socket.socket(socket.AF_UNIX)
    threads: list[threading.Thread] = []

    def start(answer: Callable[[socket.socket], None]) -> probe_client.Probe:
        listener.bind(os.fspath(tmp_path / "s"))
        listener.listen()

        def run() -> None:
            talk, _ = listener.accept()
            with talk:
                try:
                    talk.recv(100)  # what it is asked
                    answer(talk)
                except OSError:
                    pass  # it was hung up on

        threads.append(threading.Thread(target=run, daemon=True))
        threads[0].start()
        place = PreloadSocket(kind=HEAP_PROBE, process=Process.own(), root=tmp_path, path="s")
        return probe_client.Probe(place)

    yield start
    for thread in threads:
        thread.join(20)
    listener.close()


def endless(piece: bytes) -> Callable[[socket.socket], None]:
    def answer(talk: socket.socket) -> None:
        while True:
            talk.sendall(piece)

    return answer


def test_a_probe_that_does_not_stop(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload_socket, "_SNAPSHOT", preload_socket._Limit(1 << 20, 60.0))
    with pytest.raises(Failure, match="is longer than any preload's"):
        serve(endless(b"x" * 65536)).snapshot()


def test_a_probe_that_goes_on_and_on(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(talk: socket.socket) -> None:
        while True:
            talk.sendall(b"x")
            time.sleep(0.01)

    monkeypatch.setattr(preload_socket, "_SNAPSHOT", preload_socket._Limit(1 << 20, 0.3))
    with pytest.raises(Failure, match=r"takes longer than any preload's|timed out"):
        serve(answer).snapshot()


def test_a_probe_whose_figures_are_none(serve: Serve) -> None:
    assert serve(
        lambda talk: talk.sendall(b"ok\nlive " + b"9" * 5000 + b"\npeak \xd9\xa3\ninterval 7\n")
    ).status() == {"interval": 7}
