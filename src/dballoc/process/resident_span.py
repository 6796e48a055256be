"""Which bytes of an address range are resident, kept as runs of resident pages. No I/O."""

import os
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from operator import sub
from typing import NamedTuple, Self

PAGE = os.sysconf("SC_PAGE_SIZE")

_PRESENT_PAGES = re.compile(rb"\x01+")


class Runs(NamedTuple):
    """Runs of resident pages by address, no two adjacent: where each begins, and ends."""

    starts: "array[int]"
    ends: "array[int]"


def find_runs(start: int, present: bytes | bytearray) -> Runs:
    """Return the runs of present pages, given a byte for each page from ``start`` on: 1 if it is
    present, else 0.
    """
    runs = Runs(array("Q"), array("Q"))
    for match in _PRESENT_PAGES.finditer(present):
        first, behind = match.span()
        runs.starts.append(start + first * PAGE)
        runs.ends.append(start + behind * PAGE)
    return runs


def append_runs(runs: Runs, more: Runs) -> None:
    """Append runs that lie behind all others; the first of them may touch the last of those."""
    if runs.ends and more.starts and more.starts[0] == runs.ends[-1]:
        runs.ends.pop()
        runs.starts.extend(more.starts[1:])
    else:
        runs.starts.extend(more.starts)
    runs.ends.extend(more.ends)


class Span:
    """Which bytes of an address range are resident. Addresses outside the range count as absent.

    Its size depends on what is in memory and not on the size of the range.
    """

    def __init__(self, start: int, end: int, runs: Runs) -> None:
        self.start, self.end = start, end
        self.starts, self.ends = runs

    @classmethod
    def of_pages(cls, start: int, present: Iterable[bool]) -> Self:
        """Make a span of one flag for each page from ``start`` on."""
        flags = bytes(present)
        return cls(start, start + len(flags) * PAGE, find_runs(start, flags))

    @cached_property
    def _before(self) -> "array[int]":
        """The resident bytes before each run, and before the end."""
        return array("Q", accumulate(map(sub, self.ends, self.starts), initial=0))

    @property
    def resident(self) -> int:
        """Resident bytes of the whole range."""
        return self._before[-1]

    def count_resident(self, start: int, end: int) -> int:
        """Return the resident bytes of one range."""
        return self._count_below(end) - self._count_below(start)

    def iterate_runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the runs from one address to another, cut off there."""
        first = max(0, bisect_right(self.starts, start) - 1)
        for run in range(first, bisect_left(self.starts, end)):
            if self.ends[run] > start:
                yield max(self.starts[run], start), min(self.ends[run], end)

    def iterate_gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what is not resident from one address to another."""
        at = start
        for run_start, run_end in self.iterate_runs(start, end):
            if at < run_start:
                yield at, run_start
            at = run_end
        if at < end:
            yield at, end

    def multiples(self, size: int, fully_resident: bool = False) -> Iterator[int]:
        """Yield the addresses that are multiples of ``size`` (bytes, a multiple of a page) and
        whose page is resident; with ``fully_resident``, only those whose ``size`` bytes are all
        resident.
        """
        beyond = size - 1 if fully_resident else 0
        for start, end in zip(self.starts, self.ends, strict=True):
            yield from range(-(-start // size) * size, end - beyond, size)

    def _count_below(self, address: int) -> int:
        run = bisect_right(self.starts, address) - 1
        if run < 0:
            return 0
        return self._before[run] + min(address, self.ends[run]) - self.starts[run]
