"""The peak RSS of programs that a test starts, with their children. wait4's ru_maxrss is not that: a
program that was started by a large process begins with that one's (getrusage(2) says maximum, and
exec does not reset it).
"""

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)
_EVERY = 0.03  # seconds; the kernel keeps the peak, so only a program's last moment is missed


class PeakMemory:
    """``peaks``: by the PID of each program that was added, bytes of the largest of its processes."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}

    def add(self, pid: int) -> None:
        """Watch one more program."""
        self.peaks[pid] = 0

    def look(self) -> None:
        """Look at all programs that are still there."""
        for pid in list(self.peaks):
            with contextlib.suppress(psutil.Error):
                program = psutil.Process(pid)
                for process in [program, *program.children(recursive=True)]:
                    self.peaks[pid] = max(self.peaks[pid], _read_peak(process.pid))


@contextlib.contextmanager
def watch_peaks() -> Iterator[PeakMemory]:
    """Watch the programs that are added, until the block ends."""
    memory, ended = PeakMemory(), threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY):
            memory.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield memory
    finally:
        ended.set()
        thread.join(10)


def _read_peak(pid: int) -> int:
    try:
        match = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) << 10 if match else 0
