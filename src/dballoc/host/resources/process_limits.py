"""Read the CPUs and the memory that a running process may use: its affinity, and the limits of its
cgroups (v1 and v2).
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dballoc import readers

PROC = Path("/proc")
ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Limits:
    """Limits of a process. ``cpus``: number of CPUs of its affinity; ``quota``: CPU time, in CPUs;
    ``memory``: bytes. None without a limit.
    """

    cpus: int
    quota: float | None
    memory: int | None

    @property
    def cpu_count(self) -> int:
        """Whole CPUs that both limits allow."""
        return self.cpus if self.quota is None else max(1, min(self.cpus, math.ceil(self.quota)))


def read_limits(pid: int, proc: Path = PROC, root: Path = ROOT) -> Limits:
    """Read the limits of a process, the lowest of its cgroup and those above. OSError if it cannot
    be read.
    """
    affinity: set[int] = set()
    for thread in (proc / str(pid) / "task").iterdir():
        # Threads may have CPUs of their own (thread pools pin theirs); the process has the union.
        affinity |= os.sched_getaffinity(int(thread.name))
    groups = _parse_groups(readers.text_of_process(proc / str(pid) / "cgroup"))
    quotas = [
        q for group in _iterate_groups(groups, "cpu", root) if (q := _read_quota(group)) is not None
    ]
    sizes = [
        m
        for group in _iterate_groups(groups, "memory", root)
        if (m := _read_memory_limit(group)) is not None
    ]
    return Limits(len(affinity), min(quotas, default=None), min(sizes, default=None))


def read_memory_usage(pid: int, proc: Path = PROC, root: Path = ROOT) -> int | None:
    """Read the bytes charged to the process's own memory cgroup, page cache included; None if that
    cgroup is not visible.
    """
    try:
        groups = _parse_groups(readers.text_of_process(proc / str(pid) / "cgroup"))
    except OSError:
        return None
    path = groups.get("memory", groups.get("", ""))
    group = next(_iterate_groups(groups, "memory", root), None)
    if group is None or not group.as_posix().endswith(path.rstrip("/")):
        return None  # only a group above it is visible from here
    text = _read_text(group / "memory.current") or _read_text(group / "memory.usage_in_bytes")
    return int(text) if text.isdigit() else None


def read_lazily_freed_bytes(pid: int, proc: Path = PROC, root: Path = ROOT) -> int:
    """Read the bytes that the process's cgroup has lazily freed (MADV_FREE) since it was made; 0
    where it does not count them (v1).
    """
    try:
        groups = _parse_groups(readers.text_of_process(proc / str(pid) / "cgroup"))
    except OSError:
        return 0
    group = next(_iterate_groups(groups, "memory", root), None)
    lines = _read_text(group / "memory.stat").splitlines() if group else []
    return sum(
        int(line.split()[1]) for line in lines if line.startswith("pglazyfree ")
    ) * os.sysconf("SC_PAGE_SIZE")


def _parse_groups(text: str) -> dict[str, str]:
    """Parse /proc/PID/cgroup: controller (an empty name for v2) -> the group's path."""
    paths = {}
    for line in readers.rows(text):
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if number.isdecimal() and colon:
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _iterate_groups(groups: dict[str, str], controller: str, root: Path) -> Iterator[Path]:
    """Yield the directories of a controller's group and of those above it, as far as they are
    visible from here.
    """
    if controller in groups:
        top, path = root / controller, groups[controller]
    elif "" in groups:
        top, path = (
            (root if (root / "cgroup.controllers").exists() else root / "unified"),
            groups[""],
        )
    else:
        return
    group = top / path.lstrip("/")
    while ".." not in group.parts and group.is_relative_to(top):
        if group.is_dir():
            yield group
        group = group.parent


def _read_quota(group: Path) -> float | None:
    """Read the CPU time that a group may use, in CPUs; None without a limit."""
    if (words := _read_text(group / "cpu.max").split()) and words[0] != "max":
        return int(words[0]) / int(words[1])
    quota, period = _read_text(group / "cpu.cfs_quota_us"), _read_text(group / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def _read_memory_limit(group: Path) -> int | None:
    """Read the memory limit of a group, in bytes; v1 has 2^63 less a page for no limit."""
    text = _read_text(group / "memory.max") or _read_text(group / "memory.limit_in_bytes")
    return int(text) if text.isdigit() and int(text) < 2**60 else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
