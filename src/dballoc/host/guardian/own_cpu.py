"""The CPU time of dballoc itself: this process, its guardians, and the children that it waited
for. Servers and clients are the guardians' children, and are not in it.
"""

import os
import time

from dballoc.host.guardian.guardian_client import list_guardians
from dballoc.host.process.handle import make_cpu_clock


def read_own_cpu_seconds() -> float:
    """Read the CPU seconds of all of dballoc's processes so far."""
    ended = sum(os.times()[2:4])
    return time.process_time() + ended + sum(map(_read_process_seconds, list_guardians()))


def _read_process_seconds(pid: int) -> float:
    """Read a process's CPU seconds, to the nanosecond; 0 if it has ended."""
    try:
        return time.clock_gettime(make_cpu_clock(pid))
    except OSError:
        return 0.0
