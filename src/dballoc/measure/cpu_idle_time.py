"""How long CPUs had nothing to run, from /proc/stat."""

import os
from collections.abc import Collection
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def read() -> dict[int, float]:
    """Idle seconds, waiting for a disk included, of every CPU since boot (proc_stat(5))."""
    return parse(Path("/proc/stat").read_text(), _TICK)


def parse(stat: str, tick: int) -> dict[int, float]:
    """The lines of the single CPUs."""
    found = {}
    for line in stat.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            found[int(name[3:])] = (int(values[3]) + int(values[4])) / tick
    return found


def share(
    before: dict[int, float], after: dict[int, float], cpus: Collection[int], seconds: float
) -> float:
    """Of the time of these CPUs, the share in which they were idle; 0 to 1."""
    idle = sum(after[c] - before[c] for c in cpus if c in before and c in after)
    return min(1.0, max(0.0, idle / (seconds * len(cpus))))
