"""How long CPUs had nothing to run, or were taken by the hypervisor, from /proc/stat."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")


class CpuTime(NamedTuple):
    """A CPU's seconds since boot: ``idle``, waiting for a disk included, and ``steal``."""

    idle: float
    steal: float


def read_cpu_time() -> dict[int, CpuTime]:
    """Read every CPU's idle and stolen seconds (proc_stat(5))."""
    return parse_cpu_time(Path("/proc/stat").read_text(), _TICK)


def parse_cpu_time(stat: str, tick: int) -> dict[int, CpuTime]:
    """Return idle and stolen seconds by CPU from the text of /proc/stat; ``tick``: clock ticks a
    second.
    """
    times = {}
    for line in stat.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            times[int(name[3:])] = CpuTime(
                (int(values[3]) + int(values[4])) / tick, int(values[7]) / tick
            )
    return times


def compute_shares(
    before: dict[int, CpuTime], after: dict[int, CpuTime], cpus: Collection[int], seconds: float
) -> CpuTime:
    """Return the shares of these CPUs' time in which they were idle, and stolen, each 0 to 1.
    ``before`` and ``after``: readings ``seconds`` apart.
    """
    both = [(before[c], after[c]) for c in cpus if c in before and c in after]
    sums = sum(b.idle - a.idle for a, b in both), sum(b.steal - a.steal for a, b in both)
    idle, steal = (min(1.0, max(0.0, value / (seconds * len(cpus)))) for value in sums)
    return CpuTime(idle, steal)
