"""The process sampler: one sample of one process, for about a tenth of a millisecond of CPU.

No smaps and no pagemap in here: they hold the process's mmap lock. See :mod:`dballoc.measure.marks` for those.
"""

import os
import time
from dataclasses import dataclass

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

# Above this many threads only every n-th sample reads their context switches, so that a sample's cost stays bounded.
_THREADS_PER_SAMPLE = 128


@dataclass(frozen=True)
class Sample:
    """Counters since the process's start, sizes now. Seconds, bytes; ``clock`` is CLOCK_MONOTONIC."""

    clock: float
    rss: int
    peak: int
    vsz: int
    # Address space that could be touched, as the kernel accounts it: private writable, stack, executable
    # (VmData + VmStk + VmExe + VmLib of proc_pid_status(5)).
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
    """Samples one process. Keeps its files open, and the context switches of threads that have ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # The clock of another process's CPU time in nanoseconds (clock_getcpuclockid(3)).
        self._cpu_clock = (~pid << 3) | 2
        self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        self._per_thread: dict[str, tuple[int, int]] = {}
        self._switches = (0, 0)
        self._skipped = 0
        self.cost = 0.0
        self.samples = 0

    def close(self) -> None:
        """Close its files."""
        os.close(self._stat)
        os.close(self._status)

    def sample(self, whole: bool = False) -> Sample:
        """One sample; ``whole`` reads every thread's context switches in any case. Gone if there is no process."""
        began = time.thread_time()
        try:
            clock = time.monotonic()
            cpu = time.clock_gettime(self._cpu_clock)
            stat = os.pread(self._stat, 1024, 0).rpartition(b")")[2].split()
            status = _sizes(os.pread(self._status, 4096, 0))
            threads = int(stat[17])
            if whole or self._due(threads):
                self._read_switches()
            return Sample(
                clock, status[b"VmRSS"], status[b"VmHWM"], status[b"VmSize"],
                status[b"VmData"] + status[b"VmStk"] + status[b"VmExe"] + status[b"VmLib"], status.get(b"VmSwap", 0),
                cpu, int(stat[11]) / TICK, int(stat[12]) / TICK, int(stat[7]), int(stat[9]), threads, *self._switches,
            )  # fmt: skip
        except (OSError, IndexError, KeyError):
            # KeyError: a process on its way out, or one not yet waited for, has no memory any more.
            raise Gone from None
        finally:
            self.cost += time.thread_time() - began
            self.samples += 1

    def reset_peak(self) -> bool:
        """Reset VmHWM (proc_pid_clear_refs(5), 5), for a peak per level. False where that is not permitted."""
        try:
            with open(f"/proc/{self.pid}/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            return False
        return True

    def _due(self, threads: int) -> bool:
        self._skipped += 1
        if self._skipped * _THREADS_PER_SAMPLE < threads:
            return False
        self._skipped = 0
        return True

    def _read_switches(self) -> None:
        voluntary, involuntary = self._switches
        now: dict[str, tuple[int, int]] = {}
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            try:
                fd = os.open(f"/proc/{self.pid}/task/{tid}/status", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                text = os.pread(fd, 4096, 0)
            except OSError:
                continue
            finally:
                os.close(fd)
            # The last two lines: voluntary_ctxt_switches, nonvoluntary_ctxt_switches.
            lines = text.rsplit(b"\n", 3)
            if len(lines) < 4:
                continue
            now[tid] = counts = int(lines[1].split()[1]), int(lines[2].split()[1])
            before = self._per_thread.get(tid, (0, 0))
            if before[0] > counts[0]:
                before = (0, 0)  # a new thread with an old one's number
            voluntary += counts[0] - before[0]
            involuntary += counts[1] - before[1]
        self._per_thread = now
        self._switches = voluntary, involuntary


def _sizes(status: bytes) -> dict[bytes, int]:
    """The Vm lines of /proc/PID/status in bytes."""
    sizes = {}
    for line in status.split(b"\n"):
        if line.startswith(b"Vm"):
            name, _, rest = line.partition(b":")
            sizes[name] = int(rest.split()[0]) * 1024
    return sizes
