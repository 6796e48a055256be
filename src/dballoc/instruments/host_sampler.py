"""The host sampler: what all CPUs of the machine did, how often they switched, and how often one
woke another, from /proc/stat and /proc/interrupts; and what of that was dballoc's own.

Its figures are the whole host's: the server's, its clients', dballoc's own and everybody else's.
"""

import os
import re
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from dballoc.host.guardian.own_cpu import read_own_cpu_seconds

_STAT = Path("/proc/stat")
_INTERRUPTS = Path("/proc/interrupts")
# Of x86 and of aarch64: a name, a count for each CPU, and what it is.
_RESCHEDULES = re.compile(r"^ *(?:RES|IPI\d+): +((?:\d+ +)+)Rescheduling interrupts", re.MULTILINE)
# With more CPUs the file takes milliseconds to read.
_MOST_CPUS = 64
_TICK = os.sysconf("SC_CLK_TCK")
# A CPU's line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
_OF_ONE_CPU = re.compile(
    r"cpu(?P<number>[0-9]{1,5})(?: [0-9]{1,20}){3} (?P<idle>[0-9]{1,20}) (?P<iowait>[0-9]{1,20})"
    r"(?: [0-9]{1,20}){2} (?P<steal>[0-9]{1,20})\b"
)


@dataclass(frozen=True, kw_only=True)
class HostSample:
    """CPU seconds since boot, over all CPUs, as vmstat(8) groups them: ``user`` with nice,
    ``system`` with interrupts. ``switches``: context switches since boot, 0 where the kernel does
    not tell. ``reschedules``: interrupts since boot by which one CPU told another to run a thread
    that it had woken; None where the kernel does not count them, or counts them for many CPUs.
    ``clock``: CLOCK_MONOTONIC. ``own_cpu``: CPU seconds of dballoc's own processes since they
    began, which are in ``user`` and ``system``.
    """

    clock: float
    user: float
    system: float
    idle: float
    iowait: float
    steal: float
    switches: int
    reschedules: int | None = None
    own_cpu: float = 0.0

    @property
    def busy(self) -> float:
        """CPU seconds in which something of this machine ran."""
        return self.user + self.system

    @property
    def total(self) -> float:
        """All CPU seconds."""
        return self.busy + self.idle + self.iowait + self.steal


def take_host_sample() -> HostSample:
    """Read the host's counters now."""
    clock = time.monotonic()
    few = (os.cpu_count() or 1) <= _MOST_CPUS
    interrupts = _INTERRUPTS.read_text() if few and _INTERRUPTS.exists() else ""
    return replace(
        parse_host_sample(_STAT.read_text(), _TICK, clock, interrupts),
        own_cpu=read_own_cpu_seconds(),
    )


def parse_host_sample(stat: str, tick: int, clock: float, interrupts: str = "") -> HostSample:
    """Return the counters in the texts of /proc/stat (proc_stat(5)) and /proc/interrupts.
    ``tick``: clock ticks a second. ``guest`` and ``guest_nice`` are in ``user`` and ``nice``
    already.
    """
    first, _, rest = stat.partition("\n")
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(ticks) / tick for ticks in first.split()[1:9]
    )
    switches = next(
        (int(line.split()[1]) for line in rest.splitlines() if line.startswith("ctxt ")), 0
    )
    counted = _RESCHEDULES.search(interrupts)
    return HostSample(
        clock=clock,
        user=user + nice,
        system=system + irq + softirq,
        idle=idle,
        iowait=iowait,
        steal=steal,
        switches=switches,
        reschedules=sum(map(int, counted[1].split())) if counted else None,
    )


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
        if match := _OF_ONE_CPU.match(line):
            idle, iowait, steal = (int(match[of]) / tick for of in ("idle", "iowait", "steal"))
            times[int(match["number"])] = CpuTime(idle + iowait, steal)
    return times


def compute_shares(
    before: dict[int, CpuTime], after: dict[int, CpuTime], cpus: Collection[int], seconds: float
) -> CpuTime | None:
    """Return the shares of these CPUs' time in which they were idle, and stolen, each 0 to 1; None
    where the readings do not have all of them: a container's /proc/stat may number the CPUs anew
    (lxcfs). ``before`` and ``after``: readings ``seconds`` apart.
    """
    both = [(before[c], after[c]) for c in cpus if c in before and c in after]
    if len(both) < len(cpus):
        return None
    sums = sum(b.idle - a.idle for a, b in both), sum(b.steal - a.steal for a, b in both)
    idle, steal = (min(1.0, max(0.0, value / (seconds * len(cpus)))) for value in sums)
    return CpuTime(idle, steal)
