"""The command as users run it, and how to look at what it did and what it left."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from dballoc.evidence.sql.loadable_function import LIBRARY

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

# Of the tests' own servers, and of commands without rights: no account, and not the user that
# dballoc's own servers run as.
A_USER = 12345
BIN = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"

# A tiny trial takes about three seconds; anything near this hangs.
PATIENCE = 180.0
# Flags of a campaign of one block of a few seconds.
SMALL_CAMPAIGN = tuple(
    "--design solo --blocks 1 --threads 2 --tables 1 --rows 1000 "
    "--warmup 0s --level 2s --idle 0s".split()
)

Experiment = Callable[..., Path]
Launch = Callable[..., "subprocess.Popen[bytes]"]
StartServer = Callable[..., tuple[int, Path]]


def run_as(uid: int) -> dict[str, Any]:
    """What has root's subprocess run as this user; nothing where the tests are not root's."""
    return {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}


def give(uid: int, *paths: Path) -> None:
    """Make files this user's, if the tests are root's."""
    for path in paths if os.geteuid() == 0 else ():
        os.chown(path, uid, uid)


def ask(socket: Path, *statements: str, **account: str) -> list[tuple[Any, ...]]:
    """The rows of the last one."""
    with (
        pymysql.connect(unix_socket=str(socket), **account) as connection,
        connection.cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def answers(socket: Path, statement: str, **account: str) -> bool:
    """Whether a server listens there, and does this."""
    try:
        ask(socket, statement, **account)
    except pymysql.Error:
        return False
    return True


@dataclass(frozen=True)
class Server:
    """A server with accounts and a plugin directory of its own."""

    pid: int
    socket: Path
    plugins: Path

    def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last one, as root of the server."""
        return ask(self.socket, *statements, user="root")

    @property
    def functions(self) -> list[str]:
        """The loadable functions that it has."""
        return sorted(str(name) for (name,) in self.ask("SELECT name FROM mysql.func"))

    @property
    def mapped(self) -> bool:
        """Whether it has loaded ours."""
        return LIBRARY in Path(f"/proc/{self.pid}/maps").read_text()


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
    """``dballoc`` as users run it: a process of its own, with its cache and temporary files below
    ``home``.
    """

    def __init__(self, home: Path, package: Path) -> None:
        self.home = home
        self.env = {
            **{k: v for k, v in os.environ.items() if k not in ("DBALLOC_CACHE", "TMPDIR")},
            "DBALLOC_STORE": str(home / "store"),
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(package), os.environ.get("PYTHONPATH")])
            ),
            "DBALLOC_CACHE": str(home / "cache"),
            "TMPDIR": str(home / "tmp"),
            "COLUMNS": "200",
        }
        self.running: list[subprocess.Popen[str]] = []

    def start(
        self, *args: str | Path, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()
    ) -> "subprocess.Popen[str]":
        """Start it and go on. A report takes longer than a tiny campaign, so there is none unless a
        test asks for one.
        """
        if args[0] in ("bench", "aa") and not {"--report", "--print", "--dry-run"} & set(args):
            args = (*args, "--no-report")
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "dballoc", *map(str, args)],
            env={**self.env, **(env or {})},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
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


def rows(directory: Path, sql: str) -> list[dict[str, Any]]:
    """A query of a results directory."""
    db = sqlite3.connect(f"{(directory / 'results.sqlite').as_uri()}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in db.execute(sql)]
    finally:
        db.close()


def processes_of(home: Path) -> dict[int, str]:
    """Every process that has ``home`` in its command line or environment, whoever its parent is by
    now.
    """
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
        left += [str(p) for p in cache.glob("scratch/*")] + [
            str(p) for p in cache.glob("templates/*.partial.*")
        ]
    for cgroups in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")):
        left += [str(p) for p in cgroups.glob("dballoc-*") if not (p / "cgroup.procs").read_text()]
    return left


def thp_mode() -> str:
    """The kernel's file, as it is."""
    return THP.read_text() if THP.exists() else ""
