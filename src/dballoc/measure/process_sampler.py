"""The process sampler: one sample of one process, for a few tenths of a millisecond of CPU.

No smaps and no pagemap in here: they hold the process's mmap lock. See
:mod:`dballoc.measure.memory_marks` for those.
"""

import os
import re
import time
from dataclasses import dataclass

TICK = os.sysconf("SC_CLK_TCK")
_SIZE = re.compile(rb"^(Vm\w+):\s+(\d{1,18}) kB", re.MULTILINE)

# The kernel counts context switches by thread only, and each costs as much to read as half of all
# the rest. So a sample in passing reads a share of the threads, in turns of this many samples; a
# whole one reads all of them.
_TURN = 12
_FEW = 8


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Counters since the process's start, sizes now. Seconds, bytes; ``clock`` is
    CLOCK_MONOTONIC.
    """

    clock: float
    rss: int
    peak: int
    vsz: int
    # Address space that could be touched, as the kernel accounts it: private writable, stack,
    # executable (VmData + VmStk + VmExe + VmLib of proc_pid_status(5)).
    accessible: int
    swap: int
    cpu: float
    cpu_user: float
    cpu_system: float
    minor_faults: int
    major_faults: int
    threads: int
    voluntary: int
    involuntary: int


class Gone(Exception):
    """The process has ended."""


class ProcessSampler:
    """Samples one process. Keeps its files open, and the context switches of threads that have
    ended.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # The clock of another process's CPU time in nanoseconds (clock_getcpuclockid(3)).
        self._cpu_clock = (~pid << 3) | 2
        self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        self._task = os.open(f"/proc/{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._per_thread: dict[str, tuple[int, int]] = {}
        self._switches = (0, 0)
        self._waiting: list[str] = []
        self._share = _FEW
        self.cost = 0.0
        self.samples = 0

    def close(self) -> None:
        """Close its files."""
        for fd in (self._stat, self._status, self._task):
            os.close(fd)

    def cpu(self) -> float:
        """Seconds of CPU since the process's start, to the nanosecond, and nothing else. Gone if
        there is no process.
        """
        try:
            return time.clock_gettime(self._cpu_clock)
        except OSError:
            raise Gone from None

    def sample(self, whole: bool = False) -> Sample:
        """One sample; ``whole`` reads every thread's context switches, else they lag a few samples
        behind where there are many threads. Gone if there is no process.
        """
        began = time.thread_time()
        try:
            clock = time.monotonic()
            cpu = time.clock_gettime(self._cpu_clock)
            stat = os.pread(self._stat, 1024, 0).rpartition(b")")[2].split()
            status = _sizes(os.pread(self._status, 4096, 0))
            threads = int(stat[17])
            self._read_switches(whole)
            return Sample(
                clock=clock,
                rss=status[b"VmRSS"],
                peak=status[b"VmHWM"],
                vsz=status[b"VmSize"],
                accessible=status[b"VmData"]
                + status[b"VmStk"]
                + status[b"VmExe"]
                + status[b"VmLib"],
                swap=status.get(b"VmSwap", 0),
                cpu=cpu,
                cpu_user=int(stat[11]) / TICK,
                cpu_system=int(stat[12]) / TICK,
                minor_faults=int(stat[7]),
                major_faults=int(stat[9]),
                threads=threads,
                voluntary=self._switches[0],
                involuntary=self._switches[1],
            )
        except (OSError, IndexError, KeyError, ValueError):
            # KeyError: a process on its way out, or one not yet waited for, has no memory any more.
            raise Gone from None
        finally:
            self.cost += time.thread_time() - began
            self.samples += 1

    def reset_peak(self) -> bool:
        """Reset VmHWM (proc_pid_clear_refs(5), 5), for a peak per level. False where that is not
        permitted.
        """
        try:
            with open(f"/proc/{self.pid}/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            return False
        return True

    def _read_switches(self, whole: bool) -> None:
        if whole or not self._waiting:
            self._waiting = os.listdir(self._task)
            self._share = max(_FEW, -(-len(self._waiting) // _TURN))
            # Those of threads that have ended stay in the sum.
            self._per_thread = {tid: self._per_thread.get(tid, (0, 0)) for tid in self._waiting}
        share = len(self._waiting) if whole else self._share
        turn, self._waiting = self._waiting[:share], self._waiting[share:]
        voluntary, involuntary = self._switches
        for tid in turn:
            if (counts := self._switches_of(tid)) is None:
                continue
            before = self._per_thread.get(tid, (0, 0))
            if before[0] > counts[0]:
                before = (0, 0)  # a new thread with an old one's number
            self._per_thread[tid] = counts
            voluntary += counts[0] - before[0]
            involuntary += counts[1] - before[1]
        self._switches = voluntary, involuntary

    def _switches_of(self, tid: str) -> tuple[int, int] | None:
        try:
            fd = os.open(f"{tid}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._task)
        except OSError:
            return None
        try:
            return _switches(os.read(fd, 8192))
        except OSError:
            return None
        finally:
            os.close(fd)


def _switches(status: bytes) -> tuple[int, int] | None:
    """Voluntary and involuntary context switches of a thread's status; some kernels add lines after
    them.
    """
    found = status.rfind(b"\nvoluntary_ctxt_switches:")
    words = status[found:].split(maxsplit=4)
    if (
        found < 0
        or len(words) < 4
        or not words[1].isdigit()
        or not words[3].isdigit()
        or len(words[1] + words[3]) > 40
    ):
        return None
    return int(words[1]), int(words[3])


def _sizes(status: bytes) -> dict[bytes, int]:
    """The Vm lines of /proc/PID/status in bytes."""
    return {name: int(kilobytes) * 1024 for name, kilobytes in _SIZE.findall(status)}
