"""Read how many threads and memory mappings this host has left for servers and their clients."""

import math
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from dballoc.ground import readers
from dballoc.host.process.handle import Process
from dballoc.host.resources.cgroup_tree import ControlGroups, Group, parse_number

_SYSCTL = Path("/proc/sys")


@dataclass(frozen=True, kw_only=True)
class ThreadLimit:
    """A limit of threads. ``name``: as an administrator knows it; ``most``: the limit, ``used``: of
    it; ``remedy``: how it is raised.
    """

    name: str
    most: int
    used: int
    remedy: str

    @property
    def spare(self) -> int:
        """How many more threads there may be."""
        return max(0, self.most - self.used)


def list_thread_limits(uid: int) -> list[ThreadLimit]:
    """List the limits of the threads that a user's processes may have, as far as they can be read:
    the kernel's, of our control groups, of the user.
    """
    running = _count_threads()
    limits = [
        ThreadLimit(
            name=name,
            most=most,
            used=running,
            remedy=f"raise it (sysctl -w {name}={2 * most})",
        )
        for name in ("kernel.threads-max", "kernel.pid_max")
        if (most := _read_sysctl(name)) is not None
    ]
    try:
        groups = ControlGroups(Process.own()).list_any("pids")
    except OSError:
        groups = []
    return [*limits, *_list_group_limits(groups), *_list_user_limits(uid)]


def _list_group_limits(groups: Iterable[Group]) -> list[ThreadLimit]:
    return [
        ThreadLimit(
            name=f"pids.max of the control group {group.path}",
            most=most,
            used=group.read_number("pids.current") or 0,
            remedy="raise it (systemd: TasksMax; docker: --pids-limit)",
        )
        for group in groups
        if (most := group.read_number("pids.max")) is not None
    ]


def _list_user_limits(uid: int) -> list[ThreadLimit]:
    """The hard limit is what the guardian's children are given."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if hard == resource.RLIM_INFINITY:
        return []
    used = sum(
        process.info["num_threads"] or 0
        for process in psutil.process_iter(["uids", "num_threads"])
        if process.info["uids"] and process.info["uids"].real == uid
    )
    remedy = "raise it (ulimit -Hu, limits.conf)"
    return [ThreadLimit(name="the user's limit of processes", most=hard, used=used, remedy=remedy)]


def describe_shortage(needed: int, limits: Iterable[ThreadLimit]) -> str:
    """Return which limit leaves too few threads, and what to do; empty where all suffice. Pure."""
    short = [limit for limit in limits if limit.spare < needed]
    if not short:
        return ""
    limit = min(short, key=lambda each: each.spare)
    return f"{limit.name} of {limit.most:,} leaves {limit.spare:,}; {limit.remedy}"


def read_most_mappings() -> float:
    """Read how many memory mappings a process may have; infinite where that cannot be read."""
    most = _read_sysctl("vm.max_map_count")
    return math.inf if most is None else most


def _count_threads() -> int:
    """Count the host's threads: the total after the slash in /proc/loadavg (proc_loadavg(5))."""
    try:
        words = readers.text_of_process("/proc/loadavg").split()
    except OSError:
        return 0
    return parse_number(words[3].partition("/")[2]) or 0 if len(words) > 3 else 0


def _read_sysctl(name: str) -> int | None:
    try:
        return parse_number(readers.text_of_process(_SYSCTL / name.replace(".", "/")).strip())
    except OSError:
        return None
