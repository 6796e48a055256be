"""What ``ps`` shows of a process: its address space, and the CPU time that it has used."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from dballoc import readers
from dballoc.process_memory.smaps import Mapping

_TICK = os.sysconf("SC_CLK_TCK")
# proc_pid_stat(5): utime, stime, starttime and vsize, counted from the state, the first field
# behind the name, which may hold blanks and parentheses.
_USER, _SYSTEM, _START, _SIZE = 11, 12, 19, 20


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


def read_usage(pid: int, mappings: Iterable[Mapping]) -> ProcessUsage:
    """Read it of a process with these ``mappings``. OSError if the process is gone."""
    return parse_usage(
        readers.text_of_process(f"/proc/{pid}/stat"),
        now=time.clock_gettime(time.CLOCK_BOOTTIME),
        tick=_TICK,
        reserved=sum(m.size for m in mappings if m.guard),
    )


def parse_usage(stat: str, now: float, tick: int, reserved: int) -> ProcessUsage:
    """Parse a text of /proc/PID/stat. ``now``: seconds since the boot; ``tick``: clock ticks in a
    second. Pure.
    """
    fields = stat.rpartition(")")[2].split()
    return ProcessUsage(
        vsz=int(fields[_SIZE]),
        reserved=reserved,
        cpu_seconds=(int(fields[_USER]) + int(fields[_SYSTEM])) / tick,
        running_seconds=max(0.0, now - int(fields[_START]) / tick),
    )
