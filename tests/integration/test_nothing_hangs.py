"""Every verb that looks at a process, over every kind of its files, mappings and sockets, that never
answer, answer late, grow, shrink or lie about their size: it ends in time, by Ctrl-C within a second,
with little memory and CPU.

In `make test` the limits of a look are a tenth of what they are by default.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from harness import Cli

from hostile_files import HostileFile, HostileFiles
from peak_memory import PeakMemory, watch_peaks

MIB = 2**20
# Maps files, listens on sockets and answers nothing; at last maps a file over its own GOT.
PROGRAM = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
extern char _GLOBAL_OFFSET_TABLE_[];
static volatile char seen;
int main(int count, char **words) {
    free(malloc(10));
    long (*volatile call)(long, ...) = syscall;
    const char *got = NULL;
    for (int i = 1; i < count; i++) {
        if (!strncmp(words[i], "map=", 4)) {
            int fd = open(words[i] + 4, O_RDONLY);
            char *page = mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
            if (page == MAP_FAILED) return 1;
            seen = *page;
        } else if (!strncmp(words[i], "listen=", 7)) {
            struct sockaddr_un address = {.sun_family = AF_UNIX};
            strcpy(address.sun_path, words[i] + 7);
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);
            if (bind(fd, (void *)&address, sizeof address) || listen(fd, 50)) return 2;
        } else if (!strncmp(words[i], "got=", 4))
            got = words[i] + 4;
    }
    if (got) {
        int fd = open(got, O_RDONLY);
        void *page = (void *)((uintptr_t)_GLOBAL_OFFSET_TABLE_ & ~4095ul);
        if (mmap(page, 8192, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != page) return 3;
    }
    call(SYS_write, 1, "ready\n", 6);
    for (;;) call(SYS_ppoll, 0, 0, 0, 0);
}
"""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """``look``: seconds of a look; ``others``: of verbs without a limit that they state; ``start``:
    what starting and ending nine commands at once takes on a busy machine.
    """

    look: float
    scrape: float
    others: float
    start: float = 10.0


TENTH = Limits(look=1.5, scrape=0.5, others=20)
WHOLE = Limits(look=15, scrape=5, others=60)
# Seconds from Ctrl-C to the end: one, and as much again for a busy machine.
CTRL_C = 2.0
MEMORY, CPU = 200 * MIB, 10.0

VERBS: dict[str, list[str]] = {
    "verify": ["verify"],
    "explain": ["explain", "--pid"],
    "explain without SQL": ["explain", "--no-sql", "--json", "--pid"],
    "explain --install-function": ["explain", "--install-function", "--yes", "--pid"],
    "explain --trim": ["explain", "--trim", "--yes", "--pid"],
    "bench --like": ["bench", "--dry-run", "--like"],
    "profile heap": ["profile", "heap", "--pid"],
    "profile contention": ["profile", "contention", "--seconds", "0.5", "--pid"],
    "profile contention by /proc": [
        *("profile", "contention", "--method", "proc", "--seconds", "0.5", "--pid"),
    ],
    "record": ["record", "--for", "1s", "--pid"],
}
# What states a limit.
LOOKS = ("verify", "explain", "explain without SQL", "bench --like")

KINDS = {
    "option file": "my.cnf",
    "library": "libjemalloc.so.2",
    "mapped file": "data.ibd",
    "GOT page": "got",
    "plugin directory": "plugin/dballoc_udf.so",
    "perf map": "perf.map",
}
WAYS = {
    "stat never answers": {"waits": ("getattr",)},
    "open never answers": {"waits": ("open",)},
    "read never answers": {"waits": ("read",)},
    "late": {"delay": 0.3},
    "grows": {"growth": 3 * MIB},
    "shrinks": {"growth": -100_000},
    "claims 1 TiB": {"size": 2**40},
    "claims nothing": {"size": 0},
    "endless": {"endless": True},
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, named as a server is."""
    directory = tmp_path_factory.mktemp("program")
    (directory / "p.c").write_text(PROGRAM)
    flags = "-O1 -fno-builtin -no-pie -Wl,-z,lazy -Wl,-z,norelro".split()
    subprocess.run(["cc", *flags, "-o", directory / "mysqld", directory / "p.c"], check=True)
    return directory / "mysqld"


@dataclass(kw_only=True)
class Target:
    """A process whose files lie on a file system that is hostile from :meth:`turn` on."""

    pid: int
    files: HostileFiles
    contents: dict[str, HostileFile]

    def turn(self, kind: str, **way: object) -> None:
        """Make one kind of file hostile, or all of them."""
        for each, name in KINDS.items():
            if kind in (each, "everything"):
                self.files.put(name, replace(self.contents[name], **way))


@pytest.fixture
def target(
    needs_root: None, hostile_files: HostileFiles, program: Path, home: Path
) -> Iterator[Target]:
    """A process that answers nothing, with all kinds of files."""
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse: no pipe stands in for a mapped file")
    contents = {
        "my.cnf": HostileFile(content=b"[mysqld]\nmax_connections = 10\n"),
        "libjemalloc.so.2": HostileFile(content=program.read_bytes().ljust(MIB, b"\0")),
        "data.ibd": HostileFile(content=bytes(8 * MIB)),
        "got": HostileFile(content=bytes(8192)),
        "plugin/dballoc_udf.so": HostileFile(content=b"\x7fELF"),
        "perf.map": HostileFile(content=b"1000 10 name\n"),
    }
    for name, file in contents.items():
        hostile_files.put(name, file)
    mount, sockets = hostile_files.mount, home / "tmp"
    words = [
        f"--defaults-file={mount}/my.cnf",
        f"--plugin-dir={mount}/plugin",
        f"--socket={sockets}/h.sock",
        f"map={mount}/libjemalloc.so.2",
        f"map={mount}/data.ibd",
        f"listen={sockets}/h.sock",
        f"got={mount}/got",
    ]
    places = {kind: sockets / kind for kind in ("probe", "trace")}
    for place in places.values():
        place.mkdir(exist_ok=True)
    env = os.environ | {
        "DBALLOC_PROBE": f"1024:{places['probe']}",
        "DBALLOC_TRACE": f"idle:1:{places['trace']}",
    }
    process = subprocess.Popen([program, *words], stdout=subprocess.PIPE, env=env)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    perf_map = Path(f"/tmp/perf-{process.pid}.map")
    try:
        for place, listener in zip(places.values(), silent, strict=True):
            listener.bind(f"{place}/{process.pid}.sock")
            listener.listen(50)
        perf_map.symlink_to(mount / "perf.map")
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield Target(pid=process.pid, files=hostile_files, contents=contents)
    finally:
        for name, file in contents.items():
            hostile_files.put(name, file)  # whoever still waits for it goes on
        perf_map.unlink(missing_ok=True)
        for listener in silent:
            with contextlib.suppress(OSError):
                os.unlink(listener.getsockname())
            listener.close()
        process.kill()
        process.wait()
        for path in sockets.glob("**/*.sock"):
            path.unlink()


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a verb ended. ``seconds``: by the clock; ``memory``: bytes, of the largest process."""

    status: int
    seconds: float
    cpu: float
    memory: int
    text: str


@dataclass(kw_only=True)
class Running:
    """A verb that runs, with its output in a file: a pipe would be waited for by its children."""

    process: "subprocess.Popen[str]"
    began: float
    output: Path
    memory: PeakMemory

    def wait(self, patience: float) -> Ended | None:
        """Wait for its end until so many seconds after its start; None if it does not come."""
        deadline = self.began + patience
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            seconds = time.monotonic() - self.began
            if pid:
                break
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            status=self.process.returncode,
            seconds=seconds,
            cpu=usage.ru_utime + usage.ru_stime,
            memory=self.memory.peaks[self.process.pid],
            text=self.output.read_text(errors="replace"),
        )

    def where(self) -> str:
        """What it waits in, for the message of a test that fails."""
        with contextlib.suppress(OSError, psutil.Error):
            process = psutil.Process(self.process.pid)
            tree = [process, *process.children(recursive=True)]
            return " ".join(
                f"{p.pid}:{p.status()}:{Path(f'/proc/{p.pid}/wchan').read_text()}" for p in tree
            )
        return "gone"


def wait_until_they_hang(running: Iterable[Running]) -> None:
    """Wait until those that have not ended wait for something for a second, at most half a minute:
    ten that begin at once take a busy machine's CPUs from each other.
    """
    deadline, quiet = time.monotonic() + 30, 0
    while quiet < 10 and time.monotonic() < deadline:
        alive = [each for each in running if each.process.poll() is None]
        quiet = 0 if any(":running:" in each.where() for each in alive) else quiet + 1
        time.sleep(0.1)


@pytest.fixture
def start(run_cli: Cli, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a verb."""
    started: list[Running] = []
    stack = contextlib.ExitStack()
    memory = stack.enter_context(watch_peaks())

    def start(*words: str, look: float) -> Running:
        output = tmp_path / f"output-{len(started)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "dballoc", *words],
                env=run_cli.env | {"DBALLOC_LOOK_SECONDS": f"{look:g}"},
                cwd=run_cli.home,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        memory.add(process.pid)
        started.append(
            Running(process=process, began=time.monotonic(), output=output, memory=memory)
        )
        return started[-1]

    with stack:
        yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.process.wait(10)


def check_verbs(target: Target, start: Callable[..., Running], limits: Limits) -> None:
    """Run all verbs at once, and check how each ends."""
    running = {
        verb: start(*words, str(target.pid), look=limits.look) for verb, words in VERBS.items()
    }
    faults = []
    for verb, each in running.items():
        most = (limits.look if verb in LOOKS else limits.others) + limits.start
        if (ended := each.wait(most)) is None:
            faults.append(f"{verb} hangs in {each.where()}")
        elif (
            ended.status not in (0, 1, 2)
            or "Traceback" in ended.text
            or ended.cpu > CPU
            or ended.memory > MEMORY
        ):
            faults.append(f"{verb}: {ended}")
    assert not faults, "\n".join(faults)


CASES = [
    *[(kind, "read never answers") for kind in KINDS],
    *[("everything", way) for way in WAYS],
]


@pytest.mark.parametrize(("kind", "way"), CASES)
def test_every_verb_ends_in_time(
    target: Target, start: Callable[..., Running], kind: str, way: str
) -> None:
    target.turn(kind, **WAYS[way])
    check_verbs(target, start, TENTH)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [*KINDS, "everything"])
def test_every_verb_ends_within_its_whole_limit(
    target: Target, start: Callable[..., Running], kind: str, way: str
) -> None:
    target.turn(kind, **WAYS[way])
    check_verbs(target, start, WHOLE)


@pytest.mark.parametrize("kind", [*KINDS, "everything"])
def test_every_verb_ends_by_ctrl_c(
    target: Target, start: Callable[..., Running], kind: str
) -> None:
    target.turn(kind, waits=("read",))
    running = {verb: start(*words, str(target.pid), look=600) for verb, words in VERBS.items()}
    wait_until_they_hang(running.values())
    faults = []
    for verb, each in running.items():
        if each.process.poll() is None:
            interrupted = time.monotonic()
            os.killpg(each.process.pid, signal.SIGINT)
            ended = each.wait(interrupted - each.began + CTRL_C)
            if ended is None:
                faults.append(f"{verb} goes on in {each.where()}")
            elif "Traceback" in ended.text:
                faults.append(f"{verb}: {ended}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("way", ["read never answers", "stat never answers", "late"])
def test_a_scrape_ends_in_time(
    target: Target, start: Callable[..., Running], home: Path, way: str
) -> None:
    place = home / "tmp/exporter.sock"
    exporter = start(
        "explain", "--listen", f"unix:{place}", "--pid", str(target.pid), look=TENTH.look
    )
    try:
        wait_for(place.exists)
        target.turn("everything", **WAYS[way])
        for _ in range(3):
            began = time.monotonic()
            assert scrape(place, TENTH.scrape + TENTH.start).startswith(b"HTTP/1.")
            assert time.monotonic() - began < TENTH.scrape + 3
    finally:
        os.kill(exporter.process.pid, signal.SIGINT)
        interrupted = time.monotonic()
        assert exporter.wait(interrupted - exporter.began + CTRL_C)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def scrape(place: Path, patience: float) -> bytes:
    """The answer to one request."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(patience)
        client.connect(str(place))
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        parts = []
        while part := client.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)
