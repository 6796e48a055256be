"""The heap probe's socket beside a program that closes descriptors, loads libraries, or throws."""

import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from machine import MACHINE
from programs import (
    LONGEST,
    Start,
    compiled,
    connect_to,
    open_probe,
    read_to_the_end,
    socket_path,
    starting,
    wait_for_probe,
)

from captured_run import run_captured
from dballoc.ground.errors import Failure
from dballoc.profile.heap import probe_client

pytestmark = pytest.mark.alone  # what it counts and times wants the CPUs

HERE = Path(__file__).parent
# Libraries that asked.c loads.
LOADED = 128


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("asked", tmp_path_factory.mktemp("asked"), "-ldl")


@pytest.fixture
def environ(native_library: Callable[[str], Path], tmp_path: Path) -> dict[str, str]:
    """Of a program under the probe over glibc's malloc."""
    return {"LD_PRELOAD": str(native_library("probe")), probe_client.VARIABLE: f"1024:{tmp_path}"}


@pytest.fixture
def start() -> Iterator[Start]:
    with starting() as begin:
        yield begin


@dataclass
class Poll:
    """What asks the probe of a process without end, and how often it was answered."""

    pid: int
    directory: Path
    over: threading.Event
    answers: int = 0

    def run(self) -> None:
        while not self.over.is_set():
            for path in list(self.directory.glob("*.sock")):
                try:
                    there = open_probe(path, self.pid)
                    self.answers += "pid" in there.status()
                    self.answers += there.snapshot().pid > 0
                except Failure:
                    time.sleep(0.001)  # its listener has just gone, and comes again

    def has_answer(self, patience: float) -> bool:
        """Whether there is one more than there were: it listens, again if it was closed."""
        before, deadline = self.answers, time.monotonic() + patience
        while self.answers == before and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.answers > before


@pytest.mark.parametrize("mode", ["closes", "filtered"])
def test_a_program_that_closes_what_it_inherited_keeps_its_clients(
    asked: Path, start: Start, environ: dict[str, str], tmp_path: Path, mode: str
) -> None:
    own = tmp_path / "program"
    running = start(asked, mode, own, **environ)
    stdin, stdout = running.process.stdin, running.process.stdout
    assert stdin
    assert stdout
    poll, lost = Poll(running.process.pid, tmp_path, threading.Event()), 0
    asker = threading.Thread(target=poll.run)
    asker.start()
    # In the program's table there is a moment between the look at a descriptor and its use, after
    # which the probe may wait for nothing. The program must not notice.
    may_fall_silent = mode == "filtered"
    patience = 10 if may_fall_silent else LONGEST
    answers = True
    try:
        for _ in range(8):
            answers = answers and poll.has_answer(patience)
            assert answers or may_fall_silent, "the probe answers no more"
            stdin.write("x")
            stdin.flush()
            assert stdout.readline() == "closed\n"
            for _ in range(50):
                with connect_to(own) as talk:
                    lost += read_to_the_end(talk) != b"program"
        answers = answers and poll.has_answer(patience)
    finally:
        poll.over.set()
        asker.join()
    assert lost <= may_fall_silent
    assert answers or may_fall_silent
    if answers:
        assert wait_for_probe(tmp_path).status()["pid"] == running.pid


def test_its_files_are_not_the_programs(
    asked: Path, start: Start, environ: dict[str, str], tmp_path: Path
) -> None:
    """In a table of their own: a pipe that the program closes ends for whoever reads it, and no
    child has the listener.
    """
    running = start(asked, "closes", tmp_path / "program", **environ)
    [thread] = [
        task
        for task in Path(f"/proc/{running.pid}/task").iterdir()
        if (task / "comm").read_text() == "dballoc-probe\n"
    ]
    inside = {os.readlink(link) for link in (thread / "fd").iterdir()}
    outside = {os.readlink(link) for link in Path(f"/proc/{running.pid}/fd").iterdir()}
    assert len(inside) == 1
    assert not inside & outside


def long_directory(base: Path) -> Path:
    """Names of nearly 4096 bytes, so that a few objects are more than a socket holds."""
    path = base
    while len(str(path)) < 3700:
        path = path / ("x" * 200)
    path.mkdir(parents=True)
    return path


def test_a_client_that_does_not_read_holds_no_dlopen(
    asked: Path, start: Start, environ: dict[str, str], tmp_path: Path
) -> None:
    directory = long_directory(tmp_path / "libraries")
    [library] = list((MACHINE.root / "lib").glob("*/libBrokenLocale.so.1"))[:1] or [
        Path("/lib64/libBrokenLocale.so.1")
    ]
    for number in range(LOADED):
        shutil.copy(library, directory / str(number))
    running = start(asked, "loads", directory, **environ)
    stdin, stdout = running.process.stdin, running.process.stdout
    assert stdin
    assert stdout
    with connect_to(socket_path(wait_for_probe(tmp_path))) as talk:
        talk.sendall(b"snapshot\n")
        assert talk.recv(8) == b"DBALLOCP"  # it is under way
        stdin.write("x")
        stdin.flush()
        assert stdout.readline() == "loaded\n"
        # Loaded while the probe still waited for us: what is left is all there.
        rest = read_to_the_end(talk)
    assert rest.endswith(b"END." + struct.pack("=I", 0))
    named = re.findall(
        rb"BUID.{4}[0-9a-f]{40} " + re.escape(bytes(directory)) + rb"/\d+", rest, re.DOTALL
    )
    assert len(named) == LOADED


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("frames") / "frames"
    flags = ["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    MACHINE.compile("c++", program, *flags, HERE / "frames.cc")
    return program


@pytest.mark.parametrize("runs", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_frames_that_are_registered_while_others_throw(
    frames: Path, environ: dict[str, str], runs: int
) -> None:
    """libgcc's unwinder sorts them under a lock, and allocates for it."""
    for _ in range(runs):
        done = run_captured(
            [frames, "0.2"], env={"PATH": os.environ["PATH"], **environ}, timeout=LONGEST
        )
        assert (done.returncode, done.stderr) == (0, "")


NO_MEMORY = """
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
int main(void)
{
    void *(*new_one)(unsigned long);
    void *address = dlsym(RTLD_DEFAULT, "_Znwm");
    memcpy(&new_one, &address, sizeof address);
    return new_one(SIZE_MAX / 2) != NULL;
}
"""


def test_an_abort_says_why_first(environ: dict[str, str], tmp_path: Path) -> None:
    """There is no std::bad_alloc to throw in a program of C."""
    (tmp_path / "none.c").write_text(NO_MEMORY)
    MACHINE.compile("cc", tmp_path / "none", "-D_GNU_SOURCE", tmp_path / "none.c")
    done = run_captured([tmp_path / "none"], env=environ, timeout=LONGEST)
    assert done.returncode == -signal.SIGABRT
    # An emulator says after it that the program was ended by a signal.
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("qemu: ")]
    assert line.startswith("dballoc probe: malloc has no memory for operator new, ")
    assert "; give the process more memory, or " in line


@pytest.mark.parametrize("mode", ["closes", "filtered"])
def test_what_cannot_be_asked_says_so(
    asked: Path, environ: dict[str, str], tmp_path: Path, mode: str
) -> None:
    """On the program's standard error, from a thread whose files are its own."""
    environ = {**environ, probe_client.VARIABLE: f"1024:{tmp_path}/nowhere"}
    with subprocess.Popen(
        [asked, mode, tmp_path / "x"], env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr
            assert process.stderr.readline() == (
                f"dballoc probe: {tmp_path}/nowhere/{process.pid}.sock: No such file or directory; "
                "dballoc cannot talk to it: let the program's user write there\n"
            )
        finally:
            process.kill()


def test_a_program_that_sleeps_after_its_allocations_is_answered(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """It has one thread, and has called malloc for the last time."""
    process = subprocess.Popen([MACHINE.find_program("/bin/sleep"), "1000"], env=environ)
    try:
        assert wait_for_probe(tmp_path).status()["pid"] == process.pid
    finally:
        process.kill()
        process.wait()


def test_a_program_leaves_its_snapshot(
    environ: dict[str, str], asked: Path, tmp_path: Path
) -> None:
    """Before anybody can have asked it, for its own user alone."""
    variables = {**environ, probe_client.AT_EXIT_VARIABLE: "1"}
    process = subprocess.Popen(
        [MACHINE.find_program("/bin/ls"), "/"], env=variables, stdout=subprocess.DEVNULL
    )
    assert process.wait(timeout=LONGEST) == 0
    path = tmp_path / f"{process.pid}.snapshot"
    assert path.stat().st_mode & 0o777 == 0o600
    saved = probe_client.SavedSnapshot(path)
    assert saved.pid == process.pid
    assert saved.snapshot().stacks


@pytest.mark.parametrize("way", ["_exit", "quick_exit"])
def test_a_program_that_ends_in_a_hurry_leaves_its_snapshot_too(
    environ: dict[str, str], asked: Path, tmp_path: Path, way: str
) -> None:
    variables = {**environ, probe_client.AT_EXIT_VARIABLE: "1"}
    process = subprocess.Popen([asked, way], env=variables)
    assert process.wait(timeout=LONGEST) == 7
    saved = probe_client.SavedSnapshot(tmp_path / f"{process.pid}.snapshot")
    assert saved.snapshot().stacks
    assert not list(tmp_path.glob("*.sock"))
