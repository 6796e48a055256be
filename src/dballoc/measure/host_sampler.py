"""The host sampler: what all CPUs of the machine did, how often they switched, and how often one
woke another, from /proc/stat and /proc/interrupts.

Its figures are the whole host's: the server's, its clients', dballoc's own and everybody else's.
"""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_INTERRUPTS = Path("/proc/interrupts")
# Of x86 and of aarch64: a name, a count for each CPU, and what it is.
_RESCHEDULES = re.compile(r"^ *(?:RES|IPI\d+): +((?:\d+ +)+)Rescheduling interrupts", re.MULTILINE)
# With more CPUs the file takes milliseconds to read.
_MOST_CPUS = 64
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class HostSample:
    """CPU seconds since boot, over all CPUs, as vmstat(8) groups them: ``user`` with nice,
    ``system`` with interrupts. ``switches``: context switches since boot, 0 where the kernel does
    not tell. ``reschedules``: interrupts since boot by which one CPU told another to run a thread
    that it had woken; None where the kernel does not count them, or counts them for many CPUs.
    ``clock``: CLOCK_MONOTONIC.
    """

    clock: float
    user: float
    system: float
    idle: float
    iowait: float
    steal: float
    switches: int
    reschedules: int | None = None

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
    return parse_host_sample(_STAT.read_text(), _TICK, clock, interrupts)


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
