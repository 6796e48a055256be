"""The host sampler: what all CPUs of the machine did, and how often they switched, from /proc/stat.

Its figures are the whole host's: the server's, its clients', dballoc's own and everybody else's.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class HostSample:
    """CPU seconds since boot, over all CPUs, as vmstat(8) groups them: ``user`` with nice,
    ``system`` with interrupts. ``switches``: context switches since boot, 0 where the kernel does
    not tell. ``clock``: CLOCK_MONOTONIC.
    """

    clock: float
    user: float
    system: float
    idle: float
    iowait: float
    steal: float
    switches: int

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
    return parse_host_sample(_STAT.read_text(), _TICK, clock)


def parse_host_sample(stat: str, tick: int, clock: float) -> HostSample:
    """Return the counters in the text of /proc/stat (proc_stat(5)). ``tick``: clock ticks a second.
    ``guest`` and ``guest_nice`` are in ``user`` and ``nice`` already.
    """
    first, _, rest = stat.partition("\n")
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(ticks) / tick for ticks in first.split()[1:9]
    )
    switches = next(
        (int(line.split()[1]) for line in rest.splitlines() if line.startswith("ctxt ")), 0
    )
    return HostSample(
        clock=clock,
        user=user + nice,
        system=system + irq + softirq,
        idle=idle,
        iowait=iowait,
        steal=steal,
        switches=switches,
    )
