"""Processes whose memory and files never answer: every look at one ends within its limit, by Ctrl-C
within a second, and names what it left out.
"""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Cli, Done, wait_until

from hostile_files import HostileFile, HostileFiles

# Other tests beside these would take a tenth of a look's time for themselves.
pytestmark = pytest.mark.alone

# A tenth of the limits that hold by default: 15 s for a look, 2 s for one touch.
TENTH = {"DBALLOC_LOOK_SECONDS": "1.5"}
# A tenth of 15 s, and what starting and ending the command takes on a busy machine.
LIMIT = 6.0

# Maps a file over its own GOT, then calls the kernel by an address that it has kept.
PROGRAM = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char _GLOBAL_OFFSET_TABLE_[];
int main(int count, char **words) {
    free(malloc(10));
    long (*volatile call)(long, ...) = syscall;
    if (count > 1 && strncmp(words[1], "/", 1) == 0) {
        int fd = open(words[1], O_RDWR);
        if (fd < 0) fd = open(words[1], O_RDONLY);
        void *page = (void *)((uintptr_t)_GLOBAL_OFFSET_TABLE_ & ~4095ul);
        if (mmap(page, 8192, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) != page) return 1;
    }
    call(SYS_write, 1, "ready\n", 6);
    for (;;) call(SYS_ppoll, 0, 0, 0, 0);
}
"""


@pytest.fixture
def files(needs_root: None, hostile_files: HostileFiles) -> HostileFiles:
    """A file system whose files may never answer."""
    if hostile_files.server is None:
        pytest.skip("needs /dev/fuse: no pipe stands in for a mapped file")
    return hostile_files


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, named as a server is."""
    directory = tmp_path_factory.mktemp("program")
    (directory / "p.c").write_text(PROGRAM)
    flags = "-O1 -fno-builtin -no-pie -Wl,-z,lazy -Wl,-z,norelro".split()
    subprocess.run(["cc", *flags, "-o", directory / "mysqld", directory / "p.c"], check=True)
    return directory / "mysqld"


@pytest.fixture
def start(program: Path) -> Iterator[Callable[..., int]]:
    """Start the program with these words; its PID."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str | Path, path: Path = program) -> int:
        process = subprocess.Popen([path, *words], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def run_in_time(run_cli: Cli, *words: str, env: dict[str, str] = TENTH) -> Done:
    """Run a command that must end within the limit."""
    began = time.monotonic()
    done = run_cli.end(run_cli.start(*words, env=env), 60)
    assert time.monotonic() - began < LIMIT
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize("verb", ["verify", "explain --no-sql --pid"])
def test_a_got_over_a_file_that_never_answers(
    run_cli: Cli, files: HostileFiles, start: Callable[..., int], verb: str
) -> None:
    page = files.put("page", HostileFile(content=bytes(8192), waits=("read",)))
    done = run_in_time(run_cli, *verb.split(), str(start(page)))
    assert done.status == 1
    assert f"fuse at {files.mount}" in done.stderr


def test_an_option_file_that_never_answers_is_left_out(
    run_cli: Cli, files: HostileFiles, start: Callable[..., int]
) -> None:
    silent = files.put("my.cnf", HostileFile(content=b"[mysqld]\n", waits=("read",)))
    done = run_in_time(run_cli, "explain", "--pid", str(start(f"--defaults-file={silent}")))
    assert done.status == 0
    assert f"fuse at {files.mount} did not answer within 0.2 s" in done.stdout
    assert "glibc" in done.stdout


@pytest.mark.parametrize("waits", ["getattr", "open", "read"])
def test_ctrl_c_ends_a_look_within_a_second(
    run_cli: Cli, files: HostileFiles, start: Callable[..., int], waits: str
) -> None:
    silent = files.put(f"{waits}.cnf", HostileFile(content=b"[mysqld]\n", waits=(waits,)))
    pid = start(f"--defaults-file={silent}")
    process = run_cli.start("explain", "--pid", str(pid), env={"DBALLOC_LOOK_SECONDS": "600"})
    time.sleep(2)
    assert process.poll() is None, "it waits"
    os.kill(process.pid, signal.SIGINT)
    began = time.monotonic()
    done = run_cli.end(process, 30)
    assert time.monotonic() - began < 1
    assert done.status == 130


def test_an_executable_that_never_answers(
    run_cli: Cli, files: HostileFiles, start: Callable[..., int], program: Path
) -> None:
    copy = files.put("bin/mysqld", HostileFile(content=program.read_bytes(), mode=0o755))
    pid = start(path=copy)
    for waits in ("getattr", "open", "read"):
        files.put(
            "bin/mysqld", HostileFile(content=program.read_bytes(), mode=0o755, waits=(waits,))
        )
        done = run_in_time(run_cli, "verify", str(pid))
        assert done.status == 1
        assert f"fuse at {files.mount} did not answer within 0.2 s" in done.stderr


def test_a_server_on_a_file_system_that_answers_is_read_as_any_other(
    run_cli: Cli, files: HostileFiles, start: Callable[..., int], program: Path
) -> None:
    copy = files.put("usr/mysqld", HostileFile(content=program.read_bytes(), mode=0o755))
    there, here = start(path=copy), start()
    for verb in (("verify",), ("explain", "--no-sql", "--json", "--pid")):
        texts = [run_cli(*verb, str(pid)).stdout for pid in (there, here)]
        assert "glibc" in texts[0]
        assert len(texts[0].splitlines()) == len(texts[1].splitlines())
        assert "did not answer" not in texts[0]


def test_every_scrape_of_a_server_that_never_answers_ends(
    run_cli: Cli,
    files: HostileFiles,
    start: Callable[..., int],
    reserve_port: Callable[[], int],
) -> None:
    """At the limits that hold by default, of which a tenth is less than a busy machine needs."""
    silent = files.put("my.cnf", HostileFile(content=b"[mysqld]\n", waits=("read",)))
    pid, port = start(f"--defaults-file={silent}"), reserve_port()
    words = ("--every", "100ms", "--cpu", "100", "--listen", f"127.0.0.1:{port}")
    exporter = run_cli.start("explain", "--pid", str(pid), *words)
    wait_until(lambda: answers_at(port))
    texts = []
    for _ in range(3):
        began = time.monotonic()
        texts.append(scrape(port))
        assert time.monotonic() - began < 5
    assert all("dballoc_rss_bytes" in text for text in texts), "the rest is looked at"
    assert count_stuck(exporter.pid) <= 4
    os.kill(exporter.pid, signal.SIGINT)
    began = time.monotonic()
    run_cli.end(exporter, 30)
    assert time.monotonic() - began < 1


def scrape(port: int) -> str:
    """The metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def answers_at(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as talk:
        return talk.connect_ex(("127.0.0.1", port)) == 0


def count_stuck(pid: int) -> int:
    """How many descendants of a process are in state D."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    states = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2][1] for child in children]
    return states.count("D") + sum(count_stuck(int(child)) for child in children)
