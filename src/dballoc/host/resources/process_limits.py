"""Read the CPUs and the memory that a running process may use: its affinity, and the limits of its
cgroups (v1 and v2).
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.host.process.handle import Process
from dballoc.host.resources import cgroup_tree
from dballoc.host.resources.cgroup_tree import ControlGroups, Group


@dataclass(frozen=True)
class ProcessLimits:
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


def read_limits(process: Process, groups: ControlGroups | None = None) -> ProcessLimits:
    """Read the limits of a process, the lowest of its cgroup and those above. ``groups``: its own,
    read now if they are not given. Raises OSError if it cannot be read.
    """
    groups = groups or ControlGroups(process)
    affinity: set[int] = set()
    for thread in process.list_threads():
        # Threads may have CPUs of their own (thread pools pin theirs); the process has the union.
        affinity |= os.sched_getaffinity(thread)
    quotas = [
        quota for group in groups.list_any("cpu") if (quota := _read_quota(group)) is not None
    ]
    sizes = [
        limit
        for group in groups.list_any("memory")
        if (limit := read_memory_limit(group)) is not None
    ]
    return ProcessLimits(len(affinity), min(quotas, default=None), min(sizes, default=None))


def _read_quota(group: Group) -> float | None:
    """Read the CPU time that a group may use, in CPUs; None without a limit."""
    if (words := group.read("cpu.max").split()) and words[0] != "max":
        quota, period = (cgroup_tree.parse_number(word) for word in (*words, "")[:2])
    else:
        quota, period = (group.read_number(f"cpu.cfs_{of}_us") for of in ("quota", "period"))
    return quota / period if quota and period else None


def read_memory_limit(group: Group) -> int | None:
    """Read the memory limit of a group, in bytes; v1 has 2^63 less a page for no limit."""
    limit = group.read_number("memory.max")
    if limit is None:
        limit = group.read_number("memory.limit_in_bytes")
    return limit if limit is not None and limit < 2**60 else None


@dataclass(frozen=True)
class QuotaPeriods:
    """Periods of a cgroup's CPU quota since it was made, 100 ms each as a rule. ``throttled``:
    those in which the quota was used up, and its processes had to wait for the next.
    """

    counted: int
    throttled: int


def read_quota_periods(groups: ControlGroups) -> tuple[QuotaPeriods, ...]:
    """Read the periods of a process's cgroup and of those above it, as far as they are visible;
    those of a group without a quota are 0.
    """
    listed = groups.list_any("cpu")
    counts = [cgroup_tree.parse_flat_keyed(group.read("cpu.stat")) for group in listed]
    return tuple(
        QuotaPeriods(count.get("nr_periods", 0), count.get("nr_throttled", 0)) for count in counts
    )


def compute_throttled_share(before: Sequence[QuotaPeriods], after: Sequence[QuotaPeriods]) -> float:
    """Return the share of the periods between two readings in which a process was stopped, by
    whichever of its cgroups stopped it most. Pure.
    """
    shares = [
        (late.throttled - early.throttled) / (late.counted - early.counted)
        for early, late in zip(before, after, strict=False)
        if late.counted > early.counted
    ]
    return min(1.0, max(0.0, *shares)) if shares else 0.0
