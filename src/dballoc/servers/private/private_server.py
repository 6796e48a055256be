"""Start a private server, wait until it answers, stop it."""

import os
import re
import signal
import socket
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pymysql

from dballoc.host.guardian.guardian_client import Child, Custody, Exit
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.servers.private.admin_connection import Admin
from dballoc.servers.private.command_line import LOOPBACK, Address

# The kernel must not kill the user's own server when ours needs too much memory.
OOM_SCORE = 800


class StartFailed(Exception):
    """The server did not start to answer. ``exit`` is None if it hung."""

    def __init__(self, reason: str, exit_: Exit | None) -> None:
        super().__init__(reason)
        self.exit = exit_


@dataclass(frozen=True, kw_only=True)
class ServerLaunch:
    """Everything that a start needs."""

    argv: list[str]
    env: dict[str, str]
    address: Address
    log: Path
    password: str
    user: ServerUser
    cpus: frozenset[int] | None = None
    nofile: int = 4096
    cgroup: list[str] | None = None
    thp_disable: bool = False


@dataclass(frozen=True)
class Running:
    """A private server that answers SQL."""

    child: Child
    admin: Admin
    seconds_to_start: float

    @cached_property
    def process(self) -> Process:
        """The server process. Raises OSError if it has ended."""
        return Process.open(self.child.pid)


def free_port(host: str = LOOPBACK) -> int:
    """Find a free TCP port of one of this host's addresses. Raises OSError if it is not one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.bind((host, 0))
        port: int = s.getsockname()[1]
        return port


def spawn(custody: Custody, launch: ServerLaunch, stdin: Path | None = None) -> Child:
    """Start the process, without waiting for it to answer."""
    return custody.spawn(
        launch.argv,
        launch.env,
        launch.log,
        stdin=stdin,
        cwd=launch.address.socket.parent,
        cpus=sorted(launch.cpus) if launch.cpus else None,
        nofile=launch.nofile,
        cgroup=launch.cgroup,
        thp_disable=launch.thp_disable,
        oom_score_adj=OOM_SCORE,
        **launch.user.as_spawn(),
    )


def start(custody: Custody, launch: ServerLaunch, patience: float, database: str | None) -> Running:
    """Start and wait until it answers SQL. Raises StartFailed if it ends first or takes longer than
    ``patience`` seconds.
    """
    return answering(spawn(custody, launch), launch, patience, database)


def answering(child: Child, launch: ServerLaunch, patience: float, database: str | None) -> Running:
    """Wait until a server that was just spawned answers SQL. Raises StartFailed as for
    :func:`start`.
    """
    began = time.monotonic()
    while True:
        if exit := child.poll():
            raise StartFailed(f"the server ended at start ({exit.words})", exit)
        try:
            remaining = max(1.0, patience - (time.monotonic() - began))
            admin = Admin(
                launch.address.socket, launch.password, database, remaining, launch.user.uid
            )
            return Running(child, admin, time.monotonic() - began)
        except pymysql.err.OperationalError as error:
            # 2003: not there yet. 2013 and reset: it is starting or ending. Any other error is its
            # answer.
            if error.args[0] not in (2002, 2003, 2006, 2013, 1040, 1053):
                child.stop(signal.SIGKILL, 0)
                raise StartFailed(
                    f"the server refuses our connection: {error.args[1]}", None
                ) from None
        if time.monotonic() - began > patience:
            child.stop(signal.SIGKILL, 0)
            raise StartFailed(
                f"the server did not answer within {patience:.0f} s of its start", None
            )
        child.wait(0.01)


def stop(running: Running, patience: float) -> Exit:
    """Shut the server down cleanly, and kill it after ``patience`` seconds."""
    running.admin.close()
    return running.child.stop(signal.SIGTERM, patience)


# The first line of a server's crash handler; pages of backtrace and advice follow.
_CRASH = "got signal"
# jemalloc's statistics at the server's end: thousands of lines, some with settings that are named
# like errors.
_STATISTICS = "___ Begin jemalloc statistics ___"
_ERROR = re.compile(r"\berror\b|\berrcode\b|fatal", re.IGNORECASE)


def ending(log: Path) -> str:
    """Return the useful part of a dead server's log: from its crash on, else its last lines."""
    message = _said(log)
    crash = next((i for i, line in enumerate(message) if _CRASH in line), None)
    return "\n".join(message[-20:] if crash is None else message[max(0, crash - 5) : crash + 75])


def tail(log: Path, lines: int = 20, limit: int = 16_384) -> str:
    """Return the end of a log; an empty text if there is none."""
    try:
        with log.open("rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - limit))
            text = f.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def first_error(log: Path) -> str:
    """Return the first error of a log, without its time stamp; else what :func:`last_word`
    returns.
    """
    lines = (line for line in tail(log, 10_000, 2**20).splitlines() if "[ERROR]" in line)
    first = next(lines, None)
    return last_word(log) if first is None else first.partition("[ERROR]")[2].strip().rstrip(".")


def last_word(log: Path) -> str:
    """Return the most telling line of a log: the last error, else the last line."""
    lines = [line.strip() for line in _said(log) if line.strip()]
    if crash := next((line for line in lines if _CRASH in line), None):
        return crash
    errors = [line for line in lines if _ERROR.search(line) and not line.endswith("Aborting")]
    return (errors or lines or [f"{log} is empty"])[-1]


def _said(log: Path) -> list[str]:
    return tail(log, 100_000, 2**22).partition(_STATISTICS)[0].splitlines()[-400:]
