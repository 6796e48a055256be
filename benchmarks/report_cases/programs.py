"""Cases of programs and files: musl and static programs, files that were replaced, a cgroup full of
page cache, servers that do not answer.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dballoc.ground.errors import Failure
from dballoc.servers import build as server_builds
from report_cases.case import Case, Judgement, judge_words
from report_cases.private_server import Workshop
from report_cases.settings import find_preload, run_dballoc, verify

_PROGRAM = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    char c, *p;
    for (int i = 0; i < 20000; i++) {
        p = malloc(1500);
        memset(p, 1, 1500);
        if (i % 7 == 0) free(p);
    }
    p = malloc(30 << 20); memset(p, 2, 30 << 20);
    if (write(1, "r", 1) != 1) return 1;
    return (int)read(0, &c, 1);
}
"""
_MIB = 1 << 20
# Of what the program holds, which is about 55 MiB with what it freed.
_LEAST_HEAP = 45 * _MIB
# A server that does not answer is waited for so many seconds at most, and a look takes some.
_LONGEST_WAIT = 15.0


@contextmanager
def run_program(workshop: Workshop, name: str, *compiler: str) -> Iterator[int]:
    """Compile the program with a compiler and its options, and run it. Failure without the
    compiler.
    """
    if shutil.which(compiler[0]) is None:
        raise Failure(f"there is no {compiler[0]}: apt-get install musl-tools")
    source, program = workshop.place / "program.c", workshop.place / name
    source.write_text(_PROGRAM, encoding="ascii")
    subprocess.run([*compiler, "-fno-builtin", "-o", program, source], check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.read(1)
        try:
            yield process.pid
        finally:
            process.kill()


def look_at_libc(workshop: Workshop) -> Iterator[Judgement]:
    """musl, and static programs: which malloc, and the lines that smaps gives."""
    compilers: Sequence[tuple[str, tuple[str, ...], str]] = (
        ("mysqld", ("gcc", "-static"), "uses glibc malloc"),
        ("mariadbd", ("musl-gcc",), r"uses musl's mallocng 1\.2\."),
        ("mariadbd-static", ("musl-gcc", "-static"), "uses musl's mallocng"),
    )
    for name, compiler, uses in compilers:
        with run_program(workshop, name, *compiler) as pid:
            text = run_dballoc("verify", str(pid)).stdout
            yield judge_words(" ".join(compiler), text, uses)
            if "-static" in compiler:
                yield judge_words(" ".join(compiler), text, "the executable is static")
            ended = run_dballoc("explain", "--pid", str(pid), "--no-sql", "--json")
            lines = json.loads(ended.stdout or '{"lines": []}')["lines"]
            largest = max((line["resident"] for line in lines), default=0)
            yield Judgement(
                subject=f"{' '.join(compiler)}: its largest line",
                printed=f"{largest / _MIB:.1f} MiB",
                right=f"{_LEAST_HEAP / _MIB:.0f} to 70 MiB",
                passed=_LEAST_HEAP <= largest <= 70 * _MIB,
            )


def replace_library(workshop: Workshop) -> Iterator[Judgement]:
    """The package was upgraded under a running server."""
    library, executable = workshop.place / "libjemalloc.so.2", workshop.place / "mariadbd"
    shutil.copy(find_preload("jemalloc"), library)
    shutil.copy(server_builds.find("mariadb", None).executable, executable)
    preload = {"LD_PRELOAD": str(library)}
    with workshop.start("mariadb", environment=preload, executable=executable) as server:
        before = verify(server).partition("uses jemalloc ")[2].partition(":")[0]
        data = library.read_bytes()
        for file, content in ((library, data.replace(before.encode() + b"-", b"9.8.7-")),
                              (executable, b"")):  # fmt: skip
            (workshop.place / "new").write_bytes(content)
            (workshop.place / "new").rename(file)
        text = verify(server)
        yield judge_words("the version in use", text, f"uses jemalloc {before}:")
        yield judge_words("the next version", text, r"a restart loads version 9\.8\.7")
        yield judge_words("the executable", text, "mariadbd was replaced or removed")
        library.unlink()
        yield judge_words("a removed file", verify(server), "a restart will not find it there")


def fill_cgroup(workshop: Workshop) -> Iterator[Judgement]:
    """A pod's limit is full of page cache; the printed parts of the safe pool add up."""
    limit = 400 * _MIB
    with workshop.start("mariadb") as server, _limit_memory(server.pid, limit):
        server.query("CREATE DATABASE a", "CREATE TABLE a.t (v VARCHAR(1000)) ENGINE=MyISAM")
        for _ in range(3):
            server.query("INSERT INTO a.t SELECT repeat('x', 1000) FROM mysql.seq_1_to_100000")
        document = server.explain()
        evidence = "\n".join(
            line for v in document["verdicts"] if v["key"] == "limit" for line in v["evidence"]
        )
        yield judge_words("the limit", evidence, "as the kubelet counts it")
        yield judge_words("the parts of the safe pool", evidence, "10 % of what it has more")


@contextmanager
def _limit_memory(pid: int, limit: int) -> Iterator[None]:
    """Put a process into a memory cgroup of its own. Failure if there can be none."""
    top = Path("/sys/fs/cgroup")
    old = (top / "memory").is_dir()
    group = (top / "memory" if old else top) / f"dballoc-case-{os.getpid()}"
    try:
        group.mkdir()
        name = "memory.limit_in_bytes" if old else "memory.max"
        (group / name).write_text(str(limit), encoding="ascii")
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except OSError as error:
        raise Failure(f"no memory cgroup can be made here: {error.strerror}") from None
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def do_not_answer(workshop: Workshop) -> Iterator[Judgement]:
    """No connection is left; then the server is stopped."""
    with workshop.start("mariadb", "--max-connections=10") as server:
        server.query("CREATE USER app")
        threads = [
            threading.Thread(target=server.query, args=("SELECT sleep(6)",)) for _ in range(11)
        ]
        for thread in threads:
            thread.start()
        time.sleep(2)
        text = server.explain_text()
        for thread in threads:
            thread.join()
        yield judge_words(
            "no connection left", text, r"not queried by SQL: .*[Tt]oo many connections"
        )
        os.kill(server.pid, signal.SIGSTOP)
        began = time.monotonic()
        text = server.explain_text()
        seconds = time.monotonic() - began
        os.kill(server.pid, signal.SIGCONT)
        yield judge_words("a stopped server", text, "waiting for its answers over SQL")
        yield judge_words("a stopped server", text, "it is stopped")
        yield Judgement(
            subject="waited",
            printed=f"{seconds:.1f} s",
            right=f"at most {_LONGEST_WAIT:.0f} s",
            passed=seconds <= _LONGEST_WAIT,
        )


CASES = [
    Case(name="18", report="jemalloc#1443, OSRM#3906", run=look_at_libc),
    Case(name="22", report="kubernetes#43916", run=fill_cgroup),
    Case(name="30", report="a server that does not answer", run=do_not_answer),
    Case(name="31", report="an upgrade under a running server", run=replace_library),
]
