"""Real servers: one place for all that a session makes, the command as users run it, and what it must leave behind."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomli_w

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

# A tiny trial takes about three seconds; anything near this hangs.
PATIENCE = 180.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where the real parts are missing, say so and skip; `make test` installs them."""
    missing = [p for p in ("mariadbd", "sysbench") if not shutil.which(p, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")]
    if missing:
        mark = pytest.mark.skip(reason=f"needs {' and '.join(missing)}: run make setup")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def needs_root() -> None:
    """For what only root may do."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts a small file system, limits memory, switches THP or changes users")


@dataclass(frozen=True)
class Done:
    """How the command ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """All that it printed."""
        return self.stdout + self.stderr


class Cli:
    """``dballoc`` as users run it: a process of its own, with its cache and temporary files below ``home``."""

    def __init__(self, home: Path, package: Path) -> None:
        self.home = home
        self.env = {
            **{k: v for k, v in os.environ.items() if k not in ("DBALLOC_CACHE", "TMPDIR")},
            "PYTHONPATH": os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")])),
            "DBALLOC_CACHE": str(home / "cache"),
            "TMPDIR": str(home / "tmp"),
            "COLUMNS": "200",
        }
        self.running: list[subprocess.Popen[str]] = []

    def start(self, *args: str | Path, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """Start it and go on."""
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "dballoc", *map(str, args)], env={**self.env, **(env or {})}, cwd=self.home,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.running.append(process)
        return process

    def end(self, process: "subprocess.Popen[str]", patience: float = PATIENCE) -> Done:
        """Wait for it."""
        out, err = process.communicate(timeout=patience)
        return Done(process.returncode, out, err)

    def __call__(self, *args: str | Path, **how: Any) -> Done:
        """Run it to its end."""
        return self.end(self.start(*args, **how))

    def kill_what_is_left(self) -> None:
        """After a test that failed midway: its guardian cleans up behind it."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.running.clear()


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A short path that the server's user may pass: sockets lie below it."""
    path = Path(tempfile.mkdtemp(prefix="dbt-", dir="/tmp"))
    path.chmod(0o755)
    (path / "tmp").mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def run_cli(home: Path, package_path: Path) -> Iterator[Cli]:
    """``run_cli("bench", …)``, or ``run_cli.start`` and ``run_cli.end``."""
    cli = Cli(home, package_path)
    yield cli
    cli.kill_what_is_left()


@pytest.fixture(scope="session")
def fresh_directory(home: Path) -> Callable[[], Path]:
    """Makes a new directory, for what outlives a test."""
    return lambda: Path(tempfile.mkdtemp(prefix="out-", dir=home))


@pytest.fixture
def out(fresh_directory: Callable[[], Path]) -> Iterator[Path]:
    """A results directory to be."""
    path = fresh_directory()
    yield path / "r"
    shutil.rmtree(path)


@pytest.fixture
def small_disk(home: Path) -> Iterator[Callable[[str], Path]]:
    """``small_disk("24M")``: an empty file system of that size. For root."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        path = Path(tempfile.mkdtemp(prefix="disk-", dir=home))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "dballoc-test", path], check=True)
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        wait_until(lambda path=path: subprocess.run(["umount", path], capture_output=True, check=False).returncode == 0)
        path.rmdir()


Experiment = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny_experiment(fresh_directory: Callable[[], Path]) -> Experiment:
    """``tiny_experiment(threads=[1], time={"idle": "0s"})``: a file of the smallest campaign, with these keys changed.

    The data are the same for all, so that the template is made once a session.
    """

    def write(**changes: Any) -> Path:
        table: dict[str, Any] = {
            "name": "tiny",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [2],
            "blocks": 1,
            "server": {"options": {"innodb_buffer_pool_size": "32M"}},
            "data": {"tables": 1, "rows": 1000},
            "time": {"warmup": "0s", "level": "2s", "idle": "1s"},
            # Tests run on busy machines, where every block is disturbed; none is repeated.
            "noise": {"repeats": 0},
            "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
        }
        for key, value in changes.items():
            table[key] = {**table[key], **value} if isinstance(value, dict) and key in table else value
        path = fresh_directory() / "tiny.toml"
        path.write_text(tomli_w.dumps(table))
        return path

    return write


def rows(directory: Path, sql: str) -> list[dict[str, Any]]:
    """A query of a results directory."""
    db = sqlite3.connect(f"{(directory / 'results.sqlite').as_uri()}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in db.execute(sql)]
    finally:
        db.close()


def processes_of(home: Path) -> dict[int, str]:
    """Every process that has ``home`` in its command line or environment, whoever its parent is by now."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            if str(home).encode() in words + (entry / "environ").read_bytes():
                found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it has just ended, or is none of ours to look at
    return found


def wait_until(what: Callable[[], Any], patience: float = 60.0) -> Any:
    """The first true value of ``what``; fails the test if there is none in time."""
    deadline = time.monotonic() + patience
    while not (found := what()):
        assert time.monotonic() < deadline, f"waited {patience:.0f} s in vain"
        time.sleep(0.02)
    return found


def server_pid(home: Path) -> int | None:
    """The server that runs under load, if one does: a client is there too."""
    found = processes_of(home)
    if not any("sysbench" in words and " run" in words for words in found.values()):
        return None
    return next((pid for pid, words in found.items() if "--datadir=" in words), None)


def leftovers(home: Path) -> list[str]:
    """What should not be there after the last command has ended."""
    left = [f"process {pid}: {words}" for pid, words in processes_of(home).items()]
    left += [str(p) for p in (home / "tmp").iterdir() if p.name.startswith("dballoc-")]
    for cache in home.rglob("cache"):
        left += [str(p) for p in cache.glob("scratch/*")] + [str(p) for p in cache.glob("templates/*.partial.*")]
    for cgroups in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")):
        left += [str(p) for p in cgroups.glob("dballoc-*") if not (p / "cgroup.procs").read_text()]
    return left


def thp_mode() -> str:
    """The kernel's file, as it is."""
    return THP.read_text() if THP.exists() else ""


@pytest.fixture(scope="session", autouse=True)
def thp_at_first() -> str:
    """What the host has before any test."""
    return thp_mode()


@pytest.fixture(autouse=True)
def nothing_is_left(home: Path, run_cli: Cli, thp_at_first: str) -> Iterator[None]:
    """After every test: no process, no scratch data, no socket directory of ours; the host as it was."""
    yield
    run_cli.kill_what_is_left()
    deadline = time.monotonic() + 15
    while (left := leftovers(home) or thp_mode() != thp_at_first) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, thp_mode()
