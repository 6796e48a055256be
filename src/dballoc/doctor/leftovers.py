"""Look for runs under way, and for what an earlier run left. They are reported, never touched.

The guardian cleans up even after ``kill -9`` of dballoc, so leftovers come only from a power
failure or from a guardian that was killed as well.
"""

import contextlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from dballoc.doctor.finding import Finding
from dballoc.ground import user_directories
from dballoc.host import directories
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.guardian import guardian
from dballoc.host.resources import cgroup
from dballoc.host.unprivileged.server_user import find_server_user

# A trial's, and those of a block of bench --ray (make_fresh_directory): its results, own workloads,
# and what its client wrote.
_RUN_DIRECTORY = re.compile(r"dballoc-(block-|client-|own-)?[0-9a-f]{12}")
_SOCKET = re.compile(rf"--socket=.*/{_RUN_DIRECTORY.pattern}/[^/]+")
_SHOWN = 3


@dataclass(frozen=True)
class ListedProcess:
    """What the check needs of a process. ``started``: seconds since the epoch."""

    pid: int
    parent: int
    command: tuple[str, ...]
    started: float


@dataclass(frozen=True)
class DballocProcesses:
    """The processes of dballoc: guardians, and servers that have none."""

    guardians: tuple[ListedProcess, ...]
    orphans: tuple[ListedProcess, ...]


def check_leftovers() -> list[Finding]:
    """Check for runs under way, servers without a guardian, directories and cgroups of no run."""
    processes = sort_processes(_list_processes())
    since = min((g.started for g in processes.guardians), default=float("inf"))
    return [
        _check_runs(processes),
        _check_servers(processes),
        _check_directories(since),
        _check_cgroups(),
    ]


def sort_processes(processes: Iterable[ListedProcess]) -> DballocProcesses:
    """Pick the processes of dballoc. A server whose parent is not a guardian is an orphan."""
    processes = list(processes)
    guardians = tuple(
        p for p in processes if any(a.endswith(_guardian_name()) for a in p.command[:5])
    )
    watched = {g.pid for g in guardians}
    orphans = (
        p
        for p in processes
        if p.parent not in watched and any(_SOCKET.fullmatch(a) for a in p.command)
    )
    return DballocProcesses(guardians, tuple(orphans))


def _guardian_name() -> str:
    return os.path.join("dballoc", "host", "guardian", os.path.basename(guardian.__file__))


def _list_processes() -> Iterable[ListedProcess]:
    """List the processes of this host. A command line is in a process's memory, which may not
    answer.
    """
    return run_abandonable(lambda: list(_read_processes()), "a process of this host")


def _read_processes() -> Iterator[ListedProcess]:
    for process in psutil.process_iter(["pid", "ppid", "cmdline", "create_time"]):
        info = process.info
        yield ListedProcess(
            info["pid"], info["ppid"] or 0, tuple(info["cmdline"] or ()), info["create_time"] or 0.0
        )


def _check_runs(processes: DballocProcesses) -> Finding:
    if not processes.guardians:
        return Finding("other runs", "ok", "no other dballoc is running")
    pids = ", ".join(str(g.parent) for g in processes.guardians)
    text = f"dballoc is running (process {pids}): two runs disturb each other"
    return Finding("other runs", "warn", text, "wait until it ends")


def _check_servers(processes: DballocProcesses) -> Finding:
    name = "leftover servers"
    if not processes.orphans:
        return Finding(name, "ok", "none")
    pids = " ".join(str(p.pid) for p in processes.orphans)
    return Finding(
        name,
        "warn",
        f"servers of an earlier run are still running (process {pids})",
        f"kill {pids}",
    )


def _check_directories(since: float) -> Finding:
    name = "leftover directories"
    paths = [path for path in _list_candidates() if _is_leftover(path, since)]
    if not paths:
        return Finding(name, "ok", "none")
    listed = " ".join(map(str, paths[:_SHOWN])) + (
        f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    )
    size = sum(measure_directory(path) for path in paths)
    return Finding(
        name,
        "warn",
        f"{listed}: left by an earlier run, {size / 2**20:,.0f} MiB",
        f"rm -r {shlex.join(map(str, paths))}",
    )


def measure_directory(path: Path) -> int:
    """Sum the bytes on disk of what a directory holds. What goes away meanwhile counts as 0."""
    size = 0
    for parent, below, files in os.walk(path):
        for name in (*below, *files):
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return size


def _list_candidates() -> list[Path]:
    run = [
        path
        for path in Path(tempfile.gettempdir()).glob("dballoc-*")
        if _RUN_DIRECTORY.fullmatch(path.name)
    ]
    cache = user_directories.locate_cache()
    return [*cache.glob(f"{directories.SCRATCH}/*"), *run]


def _is_leftover(path: Path, since: float) -> bool:
    """Whether a path is this user's or the server user's own directory, and older than every run
    under way. In the directory for temporary files others may have made it: a link is not followed.
    """
    try:
        status = path.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid in _list_own_users()
        and status.st_mtime < since
    )


def _list_own_users() -> set[int | None]:
    user = find_server_user()
    return {os.geteuid(), user.uid if user else None}


def _check_cgroups() -> Finding:
    name = "leftover cgroups"
    paths = [
        path
        for path in sorted(cgroup.ROOT.glob("**/dballoc-*"))
        if _is_own_directory(path) and not _has_processes(path)
    ]
    if not paths:
        return Finding(name, "ok", "none")
    return Finding(
        name,
        "warn",
        f"{', '.join(map(str, paths))}: left by an earlier run",
        f"rmdir {shlex.join(map(str, paths))}",
    )


def _is_own_directory(path: Path) -> bool:
    """Whether a cgroup is ours: a user who has one to divide gives those in it any name."""
    try:
        return path.is_dir() and path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _has_processes(path: Path) -> bool:
    try:
        return bool((path / "cgroup.procs").read_text())
    except OSError:
        return True
