"""Another process's memory, read from outside: /proc/PID/pagemap tells which pages are present,
/proc/PID/mem what is in them.

Only present pages are read. Reading an absent one would map a zero page into the process, or bring
the page back from swap.
"""

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator
from functools import cache, cached_property
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dballoc.process_memory import pagemap_scan
from dballoc.process_memory.pagemap_scan import PageCounts
from dballoc.process_memory.read_limits import MOST, ReadBudget, Work

PAGE = os.sysconf("SC_PAGE_SIZE")

# proc_pid_pagemap(5).
_PRESENT_BIT = 1 << 63
_PRESENT = np.uint64(_PRESENT_BIT)

# The page's frame number; 0 for readers without CAP_SYS_ADMIN.
_FRAME = np.uint64((1 << 55) - 1)

# Entries of pagemap, 8 bytes each, that are held in memory at a time.
_ENTRIES = 1 << 20

_PAIR = struct.Struct("<2Q")


@cache
def _zero_frame() -> int:
    """Return the frame number of the kernel's zero page, which is mapped where untouched memory was
    read: present, but not in RSS. 0 where frame numbers are hidden from us.
    """
    with mmap.mmap(-1, PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
        view = ctypes.c_char.from_buffer(page)
        try:
            if view.value != b"\0":  # reading it maps the page
                return 0
            with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
                raw = os.pread(pagemap.fileno(), 8, 8 * (ctypes.addressof(view) // PAGE))
        except OSError:
            return 0
        finally:
            del view
    return int.from_bytes(raw, "little") & int(_FRAME)


class Span:
    """Which bytes of an address range are resident. Addresses outside the range count as absent.

    ``runs`` of resident pages by address: a row (start, end) for each, no two of which touch. So
    its size depends on what is in memory and not on the size of the range.
    """

    def __init__(self, start: int, end: int, runs: NDArray[np.int64]) -> None:
        self.start, self.end, self.runs = start, end, runs
        self._starts = runs[:, 0]

    @classmethod
    def of_pages(cls, start: int, present: NDArray[np.bool_]) -> Self:
        """Make a span of one flag for each page from ``start`` on."""
        return cls(start, start + len(present) * PAGE, _find_runs(start, present))

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return self.runs[:, 1] - self._starts

    @cached_property
    def _before(self) -> NDArray[np.int64]:
        return np.append(0, np.cumsum(self._sizes))

    @property
    def resident(self) -> int:
        """Resident bytes of the whole range."""
        return int(self._before[-1])

    @property
    def is_fully_resident(self) -> bool:
        """Whether all of it is resident."""
        return self.resident == self.end - self.start

    def count_resident_each(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the resident bytes of each of many ranges."""
        return self._count_below_each(ends) - self._count_below_each(starts)

    def sum_resident(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
        """Return the resident bytes of many ranges together."""
        return int(self.count_resident_each(starts, ends).sum())

    def count_resident(self, start: int, end: int) -> int:
        """Return the resident bytes of one range."""
        return self._count_below(end) - self._count_below(start)

    def iterate_runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the runs from one address to another, cut off there."""
        first = max(0, int(np.searchsorted(self._starts, start, "right")) - 1)
        last = int(np.searchsorted(self._starts, end, "left"))
        for run_start, run_end in self.runs[first:last].tolist():
            if run_end > start:
                yield max(run_start, start), min(run_end, end)

    def multiples(self, size: int, fully_resident: bool = False) -> Iterator[int]:
        """Yield the addresses that are multiples of ``size`` (bytes, a multiple of a page) and
        whose page is resident; with ``fully_resident``, only those whose ``size`` bytes are all
        resident.
        """
        first, ends = (
            -(-self._starts // size) * size,
            self.runs[:, 1] - (size - 1 if fully_resident else 0),
        )
        contains_multiple = first < ends
        for at, end in zip(
            first[contains_multiple].tolist(), ends[contains_multiple].tolist(), strict=True
        ):
            yield from range(at, end, size)

    def _count_below(self, address: int) -> int:
        run = int(self._starts.searchsorted(address, "right")) - 1
        if run < 0:
            return 0
        return int(self._before[run]) + min(address - int(self._starts[run]), int(self._sizes[run]))

    def _count_below_each(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(self.runs):
            return np.zeros(len(addresses), np.int64)
        run = np.searchsorted(self._starts, addresses, "right") - 1
        inside = np.minimum(addresses - self._starts[run], self._sizes[run])
        result: NDArray[np.int64] = np.where(run < 0, 0, self._before[run] + inside)
        return result


def _find_runs(start: int, present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return rows (start, end) of the runs of present pages, given a flag for each page from
    ``start`` on.
    """
    pages: NDArray[np.int64] = np.flatnonzero(
        np.diff(present, prepend=False, append=False)
    ).reshape(-1, 2)
    return start + pages.astype(np.int64) * PAGE


def _join_runs(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return all runs in one array, with those that touch made one."""
    rows = np.concatenate(pieces) if pieces else np.empty((0, 2), np.int64)
    if not len(rows):
        return rows
    apart = rows[1:, 0] != rows[:-1, 1]
    if apart.all():
        return rows
    return np.column_stack([rows[:, 0][np.append(True, apart)], rows[:, 1][np.append(apart, True)]])


class Memory:
    """The memory of one process. OSError where it cannot be read; use as a context manager."""

    def __init__(self, pid: int, budget: ReadBudget | None = None) -> None:
        if budget:
            self.budget = budget
        self._mem = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._mem)
            raise

    @cached_property
    def budget(self) -> ReadBudget:
        """What has been read through this object, against the limits."""
        return ReadBudget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._mem)
        os.close(self._pagemap)

    def span(self, start: int, end: int) -> Span:
        """Read which whole pages from ``start`` to ``end`` are resident, as many runs as one
        snapshot may read. OSError if the process is gone.
        """
        start, end = start // PAGE * PAGE, end // PAGE * PAGE
        try:
            runs = pagemap_scan.iterate_resident_runs(self._pagemap, start, end)
            return self._make_span(start, end, runs)
        except OSError:
            return self._make_span(start, end, self._read_pagemap_runs(start, end))

    def _make_span(self, start: int, end: int, pieces: Iterator[NDArray[np.int64]]) -> Span:
        kept, count = [], 0
        for piece in pieces:
            kept.append(piece)
            count += len(piece)
            if count >= MOST[Work.RUNS]:
                self.budget.note_limit(Work.RUNS)
                break
            if self.budget.out_of_time:
                break
        return Span(start, end, _join_runs(kept))

    def _read_pagemap_runs(self, start: int, end: int) -> Iterator[NDArray[np.int64]]:
        """Yield the runs of resident pages by pagemap's entry for each page (before Linux 6.7)."""
        for at in range(start // PAGE, end // PAGE, _ENTRIES):
            raw = os.pread(self._pagemap, 8 * min(_ENTRIES, end // PAGE - at), 8 * at)
            entries = np.frombuffer(raw, np.uint64)
            present = (entries & _PRESENT) != 0
            if zero := _zero_frame():
                present &= (entries & _FRAME) != np.uint64(zero)
            yield _find_runs(at * PAGE, present)

    def copy_words(self, span: Span, start: int, end: int) -> memoryview:
        """Return the 64-bit words from ``start`` to ``end``, within ``span``; 0 where nothing is
        resident.
        """
        view = memoryview(bytearray(end - start))
        for a, b in span.iterate_runs(start, end):
            os.preadv(self._mem, [view[a - start : b - start]], a)
        return view.cast("Q")

    def words(self, address: int, count: int = 1) -> tuple[int, ...]:
        """Read that many 64-bit words at an address. OSError unless all of them are resident."""
        first, last = address // PAGE, -(-(address + 8 * count) // PAGE)
        raw = os.pread(self._pagemap, 8 * (last - first), 8 * first)
        entries = struct.unpack(f"<{len(raw) // 8}Q", raw)
        zero = _zero_frame()
        if len(entries) < last - first or not all(
            e & _PRESENT_BIT and (not zero or e & int(_FRAME) != zero) for e in entries
        ):
            raise OSError(14, "not resident")
        raw = os.pread(self._mem, 8 * count, address)
        if len(raw) < 8 * count:
            raise OSError(14, "not readable")
        return struct.unpack(f"<{count}Q", raw)

    def read_page_start(self, address: int, count: int) -> bytes:
        """Read the first ``count`` bytes of a page; none if it is not resident, or the time for the
        snapshot is over.
        """
        if self.budget.out_of_time:
            return b""
        try:
            entry = os.pread(self._pagemap, 8, 8 * (address // PAGE))
            is_present = int.from_bytes(entry, "little") & _PRESENT_BIT
            return os.pread(self._mem, count, address) if is_present else b""
        except OSError:
            return b""

    def count_pages(self, start: int, end: int) -> PageCounts:
        """Count what is resident from ``start`` to ``end``, in bytes. OSError before Linux 6.7."""
        return pagemap_scan.count_pages(self._pagemap, start, end)

    def read_first_words(self, address: int) -> tuple[int, int]:
        """Read the first two words of a page that is known to be resident; 0, 0 if it is gone."""
        try:
            raw = os.pread(self._mem, 16, address)
        except OSError:
            return 0, 0
        return _PAIR.unpack(raw) if len(raw) == 16 else (0, 0)

    def page(self, address: int) -> bytes:
        """Read a page that is known to be resident; empty if it is gone."""
        try:
            raw = os.pread(self._mem, PAGE, address)
        except OSError:
            return b""
        return raw if len(raw) == PAGE else b""
