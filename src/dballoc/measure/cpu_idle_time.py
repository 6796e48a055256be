"""How long CPUs had nothing to run, from /proc/stat."""

import os
from collections.abc import Collection
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def read_idle_seconds() -> dict[int, float]:
    """Read every CPU's idle seconds since boot, waiting for a disk included (proc_stat(5))."""
    return parse_idle_seconds(Path("/proc/stat").read_text(), _TICK)


def parse_idle_seconds(stat: str, tick: int) -> dict[int, float]:
    """Return idle seconds by CPU from the text of /proc/stat; ``tick``: clock ticks a second."""
    idle_seconds = {}
    for line in stat.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            idle_seconds[int(name[3:])] = (int(values[3]) + int(values[4])) / tick
    return idle_seconds


def compute_idle_share(
    before: dict[int, float], after: dict[int, float], cpus: Collection[int], seconds: float
) -> float:
    """Return the share of these CPUs' time in which they were idle, 0 to 1. ``before`` and
    ``after``: idle seconds by CPU, ``seconds`` apart.
    """
    idle = sum(after[c] - before[c] for c in cpus if c in before and c in after)
    return min(1.0, max(0.0, idle / (seconds * len(cpus))))
