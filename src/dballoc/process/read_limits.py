"""Limits on how much one snapshot of a process reads: seconds, and a number of each thing that a
process can have any amount of.

The process may be hostile, and we may be root: whatever it has a million of must not take our time
and memory. Where a limit is reached, the snapshot goes on with what it has and says so in one line.
"""

import time
from collections.abc import Callable
from enum import StrEnum

from dballoc.host.abandonable import touches

# CPU seconds: a server of 100 GB in small pages takes about 2. On a busy machine the same work
# takes longer by the clock, and the process may be what delays us: so elapsed seconds, too.
SECONDS, PATIENCE = 10.0, 30.0
# Of what is left until this process is given up: the rest is for SQL and the answer.
_SHARE = 0.6


class Work(StrEnum):
    """What a process may have any amount of, as the note calls it."""

    TEXT = "bytes of text about its mappings"
    MAPPINGS = "mappings"
    THREADS = "threads"
    RUNS = "runs of pages in memory in one mapping"
    DATA = "bytes of its malloc's data"
    PLACES = "places where a heap of glibc's may begin"
    HEAPS = "heaps of glibc's"
    CHUNKS = "chunks of its heap"
    CACHES = "blocks that may be a thread's cache"
    LINKS = "links of malloc's lists of free chunks"
    PAGES = "pages that may begin a block of malloc's"
    BLOCKS = "large blocks of its heap"
    SLICES = "slices of mimalloc's segments"


# Each is more than a busy server has, and takes no more than a second or two to read.
MOST = {
    Work.TEXT: 256 << 20,
    Work.MAPPINGS: 1 << 17,
    Work.THREADS: 1 << 16,
    Work.RUNS: 1 << 20,
    Work.DATA: 8 << 20,
    Work.PLACES: 1 << 17,
    Work.HEAPS: 1 << 14,
    Work.CHUNKS: 6 << 20,
    Work.CACHES: 1 << 15,
    Work.LINKS: 1 << 17,
    Work.PAGES: 1 << 21,
    Work.BLOCKS: 1 << 16,
    Work.SLICES: 1 << 20,
}


class ReadBudget:
    """What one snapshot has read so far, against the limits; ``notes``: what it left out therefore.

    ``cpu`` and ``clock`` return seconds: of this thread's CPU time, and elapsed.
    """

    def __init__(
        self,
        cpu: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cpu, self._clock = cpu, clock
        self._seconds = min(PATIENCE, _SHARE * touches.count_seconds_left())
        self._cpu_end, self._end = cpu() + SECONDS, clock() + self._seconds
        self._spent = dict.fromkeys(Work, 0)
        self.notes: list[str] = []

    @property
    def out_of_time(self) -> bool:
        """Whether the time is over; noted once."""
        if self._clock() < self._end and self._cpu() < self._cpu_end:
            return False
        self._add_note(
            f"reading was stopped after {SECONDS:.0f} s of CPU time or {self._seconds:.0f} s "
            "elapsed: what was not read by then is missing from its own line, or counted in the "
            "rest"
        )
        return True

    def remaining(self, work: Work) -> int:
        """Return how many may still be read."""
        return max(0, MOST[work] - self._spent[work])

    def spend(self, work: Work, count: int = 1) -> bool:
        """Count that many as read. Whether that is within the limit; if not, it is noted once."""
        self._spent[work] += count
        if self._spent[work] <= MOST[work]:
            return True
        self.note_limit(work)
        return False

    def note_limit(self, work: Work) -> None:
        """Note that the process has more of them than one snapshot reads."""
        self._add_note(
            f"it has more than {MOST[work]:,} {work}: the others were not read, so the lines that "
            "they belong to show less than there is"
        )

    def _add_note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
