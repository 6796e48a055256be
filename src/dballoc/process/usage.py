"""What ``ps`` shows of a process: its address space, and the CPU time that it has used."""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dballoc.host.process.handle import STARTED, SYSTEM_TICKS, USER_TICKS, VIRTUAL_SIZE, Process
from dballoc.process.smaps import MemoryMapping

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class ProcessUsage:
    """``vsz``: bytes of address space; ``reserved``: those of them that are accessible to nobody;
    ``cpu_seconds``: CPU time, the kernel's included, in the ``running_seconds`` since its start.
    """

    vsz: int
    reserved: int
    cpu_seconds: float
    running_seconds: float

    @property
    def cpu_share(self) -> float:
        """CPU time per second since its start, 1 = one CPU: the %CPU of ps(1), divided by 100."""
        return self.cpu_seconds / self.running_seconds if self.running_seconds > 0 else 0.0


def read_usage(process: Process, mappings: Iterable[MemoryMapping]) -> ProcessUsage:
    """Read it of a process with these ``mappings``. Raises OSError if the process is gone."""
    return parse_usage(
        process.read_stat(),
        now=time.clock_gettime(time.CLOCK_BOOTTIME),
        tick=_TICK,
        reserved=sum(m.size for m in mappings if m.guard),
    )


def parse_usage(fields: Sequence[str], now: float, tick: int, reserved: int) -> ProcessUsage:
    """Parse the fields of /proc/PID/stat. ``now``: seconds since the boot; ``tick``: clock ticks in
    a second. Pure.
    """
    return ProcessUsage(
        vsz=int(fields[VIRTUAL_SIZE]),
        reserved=reserved,
        cpu_seconds=(int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / tick,
        running_seconds=max(0.0, now - int(fields[STARTED]) / tick),
    )
