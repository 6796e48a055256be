"""The process sampler: a sample of one process costs a few tenths of a millisecond of CPU.

It never reads smaps or pagemap: the kernel holds the process's mmap lock meanwhile. See
:mod:`dballoc.instruments.memory_marks` for those.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dballoc.host.process.handle import Process, make_cpu_clock

TICK = os.sysconf("SC_CLK_TCK")
_WRITTEN = re.compile(rb"^write_bytes: (\d{1,20})$", re.MULTILINE)
_SIZE = re.compile(rb"^(Vm\w+):\s+(\d{1,18}) kB", re.MULTILINE)

# The kernel counts context switches by thread only, and reading one thread's costs half as much as
# everything else in a sample. So an ordinary sample reads some of the threads, all of them within
# this many samples; one with ``every_thread`` reads all of them.
_TURN = 12
_FEW = 8


@dataclass(frozen=True, kw_only=True)
class ProcessSample:
    """Counters since the process's start and its present sizes, in seconds and bytes; ``clock`` is
    CLOCK_MONOTONIC.
    """

    clock: float
    rss: int
    peak: int
    vsz: int
    # Address space that may be accessed, as the kernel accounts it: private writable, stack,
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
    # Sent to storage, counted when a page is made dirty (write_bytes of proc_pid_io(5)); None where
    # that may not be read.
    written: int | None = None


class ProcessGone(Exception):
    """The process has ended."""


class ProcessSampler:
    """Samples one process. Keeps its /proc files open, and counts the context switches of threads
    that have ended too.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self._cpu_clock = make_cpu_clock(process.pid)
        self._stat = os.open(process.home / "stat", os.O_RDONLY | os.O_CLOEXEC)
        self._status = os.open(process.home / "status", os.O_RDONLY | os.O_CLOEXEC)
        self._io = _open_io(process)
        self._task = os.open(process.home / "task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._per_thread: dict[str, tuple[int, int]] = {}
        self._switches = (0, 0)
        self._waiting: list[str] = []
        self._share = _FEW

    def close(self) -> None:
        """Close the process's /proc files."""
        for fd in (self._stat, self._status, self._io, self._task):
            if fd is not None:
                os.close(fd)

    def cpu(self) -> float:
        """Return the process's CPU seconds since its start, to the nanosecond. Raises ProcessGone
        if it has ended.
        """
        try:
            return time.clock_gettime(self._cpu_clock)
        except OSError:
            raise ProcessGone from None

    def sample(self, every_thread: bool = False) -> ProcessSample:
        """Take one sample. ``every_thread`` reads all threads' context switches now; without it
        they lag a few samples behind where there are many threads. Raises ProcessGone if the
        process has ended.
        """
        try:
            clock = time.monotonic()
            cpu = time.clock_gettime(self._cpu_clock)
            stat = os.pread(self._stat, 1024, 0).rpartition(b")")[2].split()
            status = _parse_sizes(os.pread(self._status, 4096, 0))
            threads = int(stat[17])
            self._read_switches(every_thread)
            return ProcessSample(
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
                written=self._read_written(),
            )
        except (OSError, IndexError, KeyError, ValueError):
            # KeyError: a process on its way out, or one not yet waited for, has no memory any more.
            raise ProcessGone from None

    def reset_peak(self) -> bool:
        """Reset VmHWM (proc_pid_clear_refs(5), 5), so that each level has a peak of its own. False
        where that is not permitted.
        """
        try:
            with open(self.process.home / "clear_refs", "w") as f:
                f.write("5")
        except OSError:
            return False
        return True

    def _read_written(self) -> int | None:
        if self._io is None:
            return None
        try:
            return parse_written(os.pread(self._io, 512, 0))
        except PermissionError:
            return None

    def _read_switches(self, every_thread: bool) -> None:
        if every_thread or not self._waiting:
            self._waiting = os.listdir(self._task)
            self._share = max(_FEW, -(-len(self._waiting) // _TURN))
            # Those of threads that have ended stay in the sum.
            self._per_thread = {tid: self._per_thread.get(tid, (0, 0)) for tid in self._waiting}
        share = len(self._waiting) if every_thread else self._share
        turn, self._waiting = self._waiting[:share], self._waiting[share:]
        voluntary, involuntary = self._switches
        for tid in turn:
            if (counts := self._switches_of(tid)) is None:
                continue
            before = self._per_thread.get(tid, (0, 0))
            if before[0] > counts[0]:
                before = (0, 0)  # a new thread that has an ended one's number
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
            return _parse_switches(os.read(fd, 8192))
        except OSError:
            return None
        finally:
            os.close(fd)


def _open_io(process: Process) -> int | None:
    """Open the process's counters of storage; None on a kernel without them, or without the right
    to read them.
    """
    try:
        return os.open(process.home / "io", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None


def parse_written(text: bytes) -> int | None:
    """Return write_bytes of /proc/PID/io; None if the text has none."""
    line = _WRITTEN.search(text)
    return int(line[1]) if line else None


def _parse_switches(status: bytes) -> tuple[int, int] | None:
    """Return the voluntary and involuntary context switches in a thread's status; some kernels add
    lines after them.
    """
    start = status.rfind(b"\nvoluntary_ctxt_switches:")
    words = status[start:].split(maxsplit=4)
    if (
        start < 0
        or len(words) < 4
        or not words[1].isdigit()
        or not words[3].isdigit()
        or len(words[1] + words[3]) > 40
    ):
        return None
    return int(words[1]), int(words[3])


def _parse_sizes(status: bytes) -> dict[bytes, int]:
    """Return the Vm lines of /proc/PID/status in bytes."""
    return {name: int(kilobytes) * 1024 for name, kilobytes in _SIZE.findall(status)}


@contextmanager
def sample_in_background(
    take_sample: Callable[[], ProcessSample], every: float = 0.2
) -> Iterator[list[ProcessSample]]:
    """Take a sample every ``every`` seconds until the block ends or the process does. Yields the
    list that the samples are appended to.

    Nobody else may use the sampler meanwhile. The sampling thread must not start a process, which
    would be killed with the thread (PDEATHSIG).
    """
    samples: list[ProcessSample] = []
    over = threading.Event()

    def take_samples() -> None:
        try:
            while not over.wait(every):
                samples.append(take_sample())
        except ProcessGone:
            pass  # whoever waits for the process notices it too

    thread = threading.Thread(target=take_samples, name="sampling", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()
