"""How much one look does at most, whatever the process is like: seconds, and so many of each thing
that a process can have without end.

A process that is looked at may be hostile, and we are root: what it has a million of must not take
our time and memory. Where a bound is reached the look goes on with what it has, and says so in one
line.
"""

import time
from collections.abc import Callable
from enum import StrEnum

# Of CPU: what a server of 100 GB in small pages takes is about 2. On a busy machine that takes
# longer by the clock, and it may be the process that keeps us waiting: not for longer than this.
SECONDS, PATIENCE = 10.0, 30.0


class Work(StrEnum):
    """What a process can have without end, in the words of the note."""

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
    BLOCKS = "blocks with pages of their own"
    SLICES = "slices of mimalloc's segments"


# More than a server at work has, and no more than a second or two each.
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


class Effort:
    """Of one look: how much it has done, and what it left out therefore (``notes``).

    ``cpu`` and ``clock``: what tells the seconds of our own work, and of all.
    """

    def __init__(
        self,
        cpu: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cpu, self._clock = cpu, clock
        self._cpu_end, self._end = cpu() + SECONDS, clock() + PATIENCE
        self._done = dict.fromkeys(Work, 0)
        self.notes: list[str] = []

    @property
    def over(self) -> bool:
        """Whether the time is over; said once."""
        if self._clock() < self._end and self._cpu() < self._cpu_end:
            return False
        self._say(
            f"looking was stopped after {SECONDS:.0f} s of work, or {PATIENCE:.0f} s in all: what "
            "was"
            " not read by then is on lines that tell less of it, or on the rest"
        )
        return True

    def left(self, work: Work) -> int:
        """How many may still be done."""
        return max(0, MOST[work] - self._done[work])

    def spend(self, work: Work, count: int = 1) -> bool:
        """Whether so many more may be done; if not it is said, once."""
        self._done[work] += count
        if self._done[work] <= MOST[work]:
            return True
        self.cut(work)
        return False

    def cut(self, work: Work) -> None:
        """Say that there are more of them than a look reads."""
        self._say(
            f"it has more than {MOST[work]:,} {work}: a look reads no more, so the lines that they "
            "belong to tell less"
        )

    def _say(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)
