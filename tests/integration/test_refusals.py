"""What is refused before anything is started: one line with the remedy, exit status 2, nothing
left, nothing lost.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Done, Experiment, processes_of, rows, server_pid, wait_until

from dballoc.host.settings import thp

ELF_AARCH64 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00" + bytes(44)


def refused(done: Done, message: str) -> None:
    """Exactly this line, and nothing but it."""
    assert done.status == 2, done.text
    assert done.stdout == ""
    assert re.fullmatch(f"dballoc: {message}\n", done.stderr), done.stderr


# The second variant -> what is said. {0} is the directory that holds broken.so.
VARIANTS: list[tuple[str, dict[str, Any], bytes | None, str]] = [
    (
        "no-such-allocator",
        {"allocator": "jemaloc"},
        None,
        r"variant 'other': no allocator 'jemaloc'; did you mean 'jemalloc'\?",
    ),
    (
        "other-machine",
        {"preload": ["{0}/broken.so"]},
        ELF_AARCH64,
        r"variant 'other': preload {0}/broken\.so: built for aarch64, but this machine is x86_64",
    ),
    (
        "invalid-tunable",
        {"allocator": "jemalloc", "tunables": {"no_such_setting": 1}},
        None,
        r"variant 'other': tunables: no_such_setting: jemalloc [\d.]+ has no such setting; see: dballoc list settings jemalloc",
    ),
    (
        "no-server-there",
        {"server": {"basedir": "{0}"}},
        None,
        r"server 'mariadb': no mariadbd or mysqld in {0}/{{bin,sbin,libexec,usr/sbin,usr/bin}}; "
        r"give the directory that the server was unpacked or installed into",
    ),
    (
        "no-such-server",
        {"server": {"use": "mariadbb"}},
        None,
        r"no server 'mariadbb'; did you mean 'mariadb'\?",
    ),
    (
        "no-such-engine",
        {"server": {"use": "mysql", "engine": "aria"}},
        None,
        r".*(no engine 'aria'|no MySQL Server on this machine).*",
    ),
    (
        "cpu-not-here",
        {"cpu": {"server": "4000"}},
        None,
        r"cpu\.server: CPU 4000 is not here; there are [\d,-]+",
    ),
]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the messages name x86-64")
@pytest.mark.parametrize(
    ("changes", "content", "message"), [v[1:] for v in VARIANTS], ids=[v[0] for v in VARIANTS]
)
def test_a_variant_that_cannot_be(
    run_cli: Cli,
    tiny_experiment: Experiment,
    out: Path,
    changes: dict[str, Any],
    content: bytes | None,
    message: str,
) -> None:
    here = out.parent
    if content is not None:
        (here / "broken.so").write_bytes(content)

    def place(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: place(v) for k, v in value.items()}
        return (
            [place(v) for v in value]
            if isinstance(value, list)
            else value.format(here)
            if isinstance(value, str)
            else value
        )

    file = tiny_experiment(variant=[{"name": "glibc"}, {"name": "other", **place(changes)}])
    refused(run_cli("bench", file, "--out", out), message.format(re.escape(str(here))))
    assert not out.exists()


def test_a_library_that_is_no_malloc(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, c_library
) -> None:
    out.parent.chmod(0o755)
    library = c_library("harmless", "int harmless(void) { return 1; }", out.parent)
    file = tiny_experiment(
        variant=[{"name": "glibc"}, {"name": "other", "preload": [str(library)]}]
    )
    refused(
        run_cli("bench", file, "--out", out),
        r"variant 'other': MariaDB [\d.]+ does not use libharmless\.so: malloc comes from \S*libc\.so\.6",
    )


def test_a_library_that_is_half_a_malloc(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, c_library
) -> None:
    out.parent.chmod(0o755)
    # Frees through libc what it did not get there: the mixture that crashes at the worst moment.
    half = "#include <stddef.h>\nextern void *__libc_malloc(size_t);\nvoid *malloc(size_t n) { return __libc_malloc(n); }"
    library = c_library("half", half, out.parent)
    file = tiny_experiment(
        variant=[{"name": "glibc"}, {"name": "other", "preload": [str(library)]}]
    )
    refused(
        run_cli("bench", file, "--out", out),
        r"variant 'other': MariaDB [\d.]+ does not use libhalf\.so: (free|calloc|realloc|posix_memalign|aligned_alloc) comes from \S*libc\.so\.6",
    )


# Changes of the file or the command line -> what is said.
COMMANDS: list[tuple[str, dict[str, Any], list[str], str]] = [
    (
        "unknown-key",
        {"thread": [1]},
        [],
        r"\S+/tiny\.toml: unknown key thread; did you mean \"threads\"\?",
    ),
    (
        "no-such-workload",
        {"workloads": ["oltp"]},
        [],
        r"no workload 'oltp'; (did you mean|there are) .*",
    ),
    (
        "more-memory-than-there-is",
        {"server": {"options": {"innodb_buffer_pool_size": "100T"}}},
        [],
        r"server\.options: about 102400\.\d GiB of memory needed, [\d.]+ GiB available; lower the buffer pool or the threads",
    ),
    (
        "more-data-than-the-disk-holds",
        {"data": {"rows": 10**12}},
        [],
        r"\S+/cache: about [\d.]+ GiB of disk needed for data and logs, [\d.]+ GiB free; make room, lower data\.rows, or set DBALLOC_CACHE",
    ),
]


@pytest.mark.parametrize(
    ("changes", "flags", "message"), [c[1:] for c in COMMANDS], ids=[c[0] for c in COMMANDS]
)
def test_a_command_that_makes_no_sense(
    run_cli: Cli,
    tiny_experiment: Experiment,
    out: Path,
    changes: dict[str, Any],
    flags: list[str],
    message: str,
) -> None:
    refused(run_cli("bench", tiny_experiment(**changes), *flags, "--out", out), message)
    assert not out.exists()


def test_no_sysbench(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    directory = out.parent / "bin"
    directory.mkdir()
    done = run_cli("bench", tiny_experiment(), "--out", out, env={"PATH": str(directory)})
    refused(done, "sysbench is not on this machine; install it: apt-get install sysbench")


def test_a_sysbench_that_does_not_run(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    wrapper = out.parent / "bin" / "sysbench"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/sh\necho 'error while loading shared libraries: libmysql' >&2\nexit 127\n"
    )
    wrapper.chmod(0o755)
    done = run_cli(
        "bench",
        tiny_experiment(),
        "--out",
        out,
        env={"PATH": f"{wrapper.parent}:{os.environ['PATH']}"},
    )
    refused(
        done,
        rf"{re.escape(str(wrapper))} does not run: error while loading shared libraries: libmysql",
    )


def test_a_socket_path_that_is_too_long(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path
) -> None:
    long = home / ("x" * 80)
    long.mkdir(mode=0o755)
    done = run_cli("bench", tiny_experiment(), "--out", out, env={"TMPDIR": str(long)})
    assert done.status == 2, done.text
    length = len(str(long / "dballoc-0123456789ab" / "mysqld.sock"))
    assert (
        f"{long}: the path of a server's socket in it would have {length} bytes, but the kernel's limit is 107; "
        in done.stderr
    )
    assert done.stderr.endswith("set TMPDIR to a shorter path\n")
    assert list(long.iterdir()) == []
    # The directory is none the worse for it.
    assert not (out / "results.sqlite").exists() or rows(out, "SELECT * FROM trial") == []


@pytest.fixture(scope="module")
def finished(
    run_cli: Cli, tiny_experiment: Experiment, fresh_directory: Callable[[], Path]
) -> tuple[Path, Path]:
    """A finished campaign and its experiment file; every test copies it."""
    out, file = (
        fresh_directory() / "r",
        tiny_experiment(variant=[{"name": "glibc"}], time={"idle": "0s"}, warmup_sql=[]),
    )
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    return out, file


@pytest.fixture
def results(finished: tuple[Path, Path], out: Path) -> tuple[Path, Path]:
    """A copy that a test may spoil."""
    shutil.copytree(finished[0], out)
    return out, finished[1]


def change(out: Path, sql: str) -> None:
    """Spoil a store."""
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()",
            out / "results.sqlite",
            sql,
        ],
        check=True,
    )


def test_results_of_another_experiment(run_cli: Cli, results: tuple[Path, Path]) -> None:
    out, file = results
    before = rows(out, "SELECT * FROM trial")
    refused(
        run_cli("bench", file, "--threads", "3", "--out", out),
        rf"{re.escape(str(out))}: holds results of another experiment \(experiment\.toml there\); choose a new --out",
    )
    assert rows(out, "SELECT * FROM trial") == before


def test_half_written_results_are_completed(run_cli: Cli, results: tuple[Path, Path]) -> None:
    """As a kill leaves them: a trial's files without its row, a block without its end, a store half
    made elsewhere.
    """
    out, file = results
    change(out, "DELETE FROM trial WHERE position = 2")
    tables = "SELECT DISTINCT m.name FROM sqlite_master m, pragma_table_info(m.name) c"
    for row in rows(out, f"{tables} WHERE m.type = 'table' AND c.name = 'trial'"):
        change(out, f"DELETE FROM {row['name']} WHERE trial NOT IN (SELECT trial FROM trial)")
    change(out, "DELETE FROM block")
    (out / "results.sqlite.partial").write_text("half")
    (out / "trials" / "b001-p009-stray").mkdir()
    first = rows(out, "SELECT * FROM trial")
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    # The block that was cut is repeated whole; what it had stays, and enters no figure.
    places = rows(out, "SELECT attempt, position FROM trial ORDER BY attempt, position")
    assert [(r["attempt"], r["position"]) for r in places] == [(0, 1), (1, 1), (1, 2)]
    assert rows(out, "SELECT * FROM trial WHERE attempt = 0") == first
    assert not (out / "trials" / "b001-p009-stray").exists()


def test_two_in_one_directory(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path
) -> None:
    file = tiny_experiment(time={"idle": "0s"})
    first = run_cli.start("bench", file, "--out", out)
    wait_until(lambda: server_pid(home), 120)
    refused(
        run_cli("bench", file, "--out", out),
        rf"{re.escape(str(out))}: another dballoc \(process {first.pid}\) uses it; wait, or choose a new --out",
    )
    os.kill(first.pid, signal.SIGINT)
    assert run_cli.end(first).status == 130
    assert {r["outcome"] for r in rows(out, "SELECT outcome FROM trial")} <= {"ok"}, (
        "the second disturbed the first"
    )


OTHER_USER = 61999


@pytest.fixture
def as_user(home: Path, package_path: Path) -> Callable[..., dict[str, Any]]:
    """How to run the command as a user without root, with a cache of its own."""
    for place in (package_path, Path(sys.executable), Path(sysconfig.get_paths()["purelib"])):
        seen = subprocess.run(
            [
                "setpriv",
                f"--reuid={OTHER_USER}",
                f"--regid={OTHER_USER}",
                "--clear-groups",
                "test",
                "-r",
                place,
            ],
            check=False,
        )
        if seen.returncode != 0:
            pytest.skip(f"needs {place} where other users may read it, to run as one of them")
    base = home / "user"
    for path in (base, base / "cache", base / "tmp"):
        path.mkdir(exist_ok=True)
        os.chown(path, OTHER_USER, OTHER_USER)
    return {
        "prefix": (
            "setpriv",
            f"--reuid={OTHER_USER}",
            f"--regid={OTHER_USER}",
            "--clear-groups",
            "--bounding-set=-all",
        ),
        "env": {
            "DBALLOC_CACHE": str(base / "cache"),
            "TMPDIR": str(base / "tmp"),
            "HOME": str(base),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    }


@pytest.mark.usefixtures("needs_root")
def test_a_user_without_root(
    run_cli: Cli, tiny_experiment: Experiment, home: Path, as_user: dict[str, Any]
) -> None:
    file = tiny_experiment(variant=[{"name": "glibc"}], time={"idle": "0s"})
    file.parent.chmod(0o755)
    out = home / "user" / "r"
    process = run_cli.start("bench", file, "--out", out, **as_user)
    wait_until(lambda: server_pid(home) or process.poll() is not None, 120)
    users = {words: Path(f"/proc/{pid}").stat().st_uid for pid, words in processes_of(home).items()}
    done = run_cli.end(process)
    assert done.status == 0, done.text
    assert {uid for words, uid in users.items() if "--datadir=" in words} == {OTHER_USER}
    assert [r["outcome"] for r in rows(out, "SELECT outcome FROM trial")] == ["ok", "ok"]
    assert [p for p in out.rglob("*") if p.stat().st_uid != OTHER_USER] == []


@pytest.mark.usefixtures("needs_root")
def test_a_user_without_root_may_not_switch_thp(
    run_cli: Cli, tiny_experiment: Experiment, home: Path, as_user: dict[str, Any]
) -> None:
    if (mode := thp.read_mode()) is None:
        pytest.skip("this kernel has no transparent huge pages")
    other = "never" if mode != "never" else "madvise"
    file = tiny_experiment(variant=[{"name": "glibc"}, {"name": "other", "thp": other}])
    file.parent.chmod(0o755)
    said = rf"variant 'other': thp: (the host is at '{mode}' and only root can switch it to '{other}'; run as root|.*native parts.*)"
    refused(run_cli("bench", file, "--out", home / "user" / "none", **as_user), said)


@pytest.mark.usefixtures("needs_root")
def test_a_user_without_root_may_not_limit_memory(
    run_cli: Cli, tiny_experiment: Experiment, home: Path, as_user: dict[str, Any]
) -> None:
    file = tiny_experiment(variant=[{"name": "glibc"}], limits={"memory": "400M"})
    file.parent.chmod(0o755)
    done = run_cli("bench", file, "--out", home / "user" / "limited", **as_user)
    assert done.status == 2, done.text
    assert re.search(
        r"limits\.memory: cannot make a memory cgroup in \S+: .*; run as root, or under a systemd scope with Delegate=memory",
        done.stderr,
    )
