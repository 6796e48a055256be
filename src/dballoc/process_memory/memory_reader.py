"""Another process's memory, read from outside: /proc/PID/pagemap tells what is present,
/proc/PID/mem what is in it.

Only present pages are read. Reading one that is not would map a zero page into the process, or
bring one back from swap.
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
from dballoc.process_memory.pagemap_scan import Counts
from dballoc.process_memory.read_limits import MOST, Effort, Work

PAGE = os.sysconf("SC_PAGE_SIZE")

# proc_pid_pagemap(5).
_PRESENT = np.uint64(1 << 63)
_THERE = 1 << 63

# The page's frame, 0 where we may not know it (CAP_SYS_ADMIN).
_FRAME = np.uint64((1 << 55) - 1)

# How much of pagemap is held at a time: entries of 8 bytes.
_ENTRIES = 1 << 20

_PAIR = struct.Struct("<2Q")


@cache
def _zero_frame() -> int:
    """The frame of the kernel's page of zeros, which stands for untouched memory that was read:
    present, not in RSS. 0 where frames are not to be known.
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
    """Which bytes of an address range are resident. All questions are about that range.

    ``runs`` of resident pages, by address: a row for each, its start and its end; no two of them
    touch. So it takes as much as there is in memory, however large the range.
    """

    def __init__(self, start: int, end: int, runs: NDArray[np.int64]) -> None:
        self.start, self.end, self.runs = start, end, runs
        self._starts = runs[:, 0]

    @classmethod
    def of_pages(cls, start: int, present: NDArray[np.bool_]) -> Self:
        """Of a flag for each page from ``start`` on."""
        return cls(start, start + len(present) * PAGE, _runs(start, present))

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return self.runs[:, 1] - self._starts

    @cached_property
    def _before(self) -> NDArray[np.int64]:
        return np.append(0, np.cumsum(self._sizes))

    @property
    def resident(self) -> int:
        """Bytes, of the whole range."""
        return int(self._before[-1])

    @property
    def whole(self) -> bool:
        """Whether all of it is resident."""
        return self.resident == self.end - self.start

    def each(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Resident bytes of many ranges."""
        return self._up_to(ends) - self._up_to(starts)

    def bytes(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
        """Resident bytes of many ranges together."""
        return int(self.each(starts, ends).sum())

    def between(self, start: int, end: int) -> int:
        """Resident bytes of one range."""
        return self._below(end) - self._below(start)

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The runs from one address to another, cut off there."""
        first = max(0, int(np.searchsorted(self._starts, start, "right")) - 1)
        last = int(np.searchsorted(self._starts, end, "left"))
        for run_start, run_end in self.runs[first:last].tolist():
            if run_end > start:
                yield max(run_start, start), min(run_end, end)

    def multiples(self, size: int, whole: bool = False) -> Iterator[int]:
        """The multiples of a size, of pages, the page at which is resident; or all pages up to the
        next one (``whole``).
        """
        first, ends = -(-self._starts // size) * size, self.runs[:, 1] - (size - 1 if whole else 0)
        some = first < ends
        for at, end in zip(first[some].tolist(), ends[some].tolist(), strict=True):
            yield from range(at, end, size)

    def _below(self, address: int) -> int:
        run = int(self._starts.searchsorted(address, "right")) - 1
        if run < 0:
            return 0
        return int(self._before[run]) + min(address - int(self._starts[run]), int(self._sizes[run]))

    def _up_to(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(self.runs):
            return np.zeros(len(addresses), np.int64)
        run = np.searchsorted(self._starts, addresses, "right") - 1
        inside = np.minimum(addresses - self._starts[run], self._sizes[run])
        result: NDArray[np.int64] = np.where(run < 0, 0, self._before[run] + inside)
        return result


def _runs(start: int, present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows of start and end, of a flag for each page from ``start`` on."""
    pages: NDArray[np.int64] = np.flatnonzero(
        np.diff(present, prepend=False, append=False)
    ).reshape(-1, 2)
    return start + pages.astype(np.int64) * PAGE


def _joined(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Runs without those that touch."""
    rows = np.concatenate(pieces) if pieces else np.empty((0, 2), np.int64)
    if not len(rows):
        return rows
    apart = rows[1:, 0] != rows[:-1, 1]
    if apart.all():
        return rows
    return np.column_stack([rows[:, 0][np.append(True, apart)], rows[:, 1][np.append(apart, True)]])


class Memory:
    """The memory of one process. OSError where it cannot be read; use as a context manager."""

    def __init__(self, pid: int, effort: Effort | None = None) -> None:
        if effort:
            self.effort = effort
        self._mem = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._mem)
            raise

    @cached_property
    def effort(self) -> Effort:
        """Of all that is read through this."""
        return Effort()

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
        """What is resident of whole pages from ``start`` to ``end``; as much of it as a look may
        read.
        """
        start, end = start // PAGE * PAGE, end // PAGE * PAGE
        try:
            return self._span(start, end, pagemap_scan.runs(self._pagemap, start, end))
        except OSError:
            return self._span(start, end, self._entries(start, end))

    def _span(self, start: int, end: int, pieces: Iterator[NDArray[np.int64]]) -> Span:
        kept, count = [], 0
        for piece in pieces:
            kept.append(piece)
            count += len(piece)
            if count >= MOST[Work.RUNS]:
                self.effort.cut(Work.RUNS)
                break
            if self.effort.over:
                break
        return Span(start, end, _joined(kept))

    def _entries(self, start: int, end: int) -> Iterator[NDArray[np.int64]]:
        """The runs of resident pages, before Linux 6.7: by a word for each page."""
        for at in range(start // PAGE, end // PAGE, _ENTRIES):
            raw = os.pread(self._pagemap, 8 * min(_ENTRIES, end // PAGE - at), 8 * at)
            entries = np.frombuffer(raw, np.uint64)
            present = (entries & _PRESENT) != 0
            if zero := _zero_frame():
                present &= (entries & _FRAME) != np.uint64(zero)
            yield _runs(at * PAGE, present)

    def copy(self, span: Span, start: int, end: int) -> memoryview:
        """The words (64 bits) from ``start`` to ``end``, within ``span``; 0 where nothing is
        resident.
        """
        view = memoryview(bytearray(end - start))
        for a, b in span.within(start, end):
            os.preadv(self._mem, [view[a - start : b - start]], a)
        return view.cast("Q")

    def words(self, address: int, count: int = 1) -> tuple[int, ...]:
        """That many words at an address. OSError unless all of it is resident."""
        first, last = address // PAGE, -(-(address + 8 * count) // PAGE)
        raw = os.pread(self._pagemap, 8 * (last - first), 8 * first)
        entries = struct.unpack(f"<{len(raw) // 8}Q", raw)
        zero = _zero_frame()
        if len(entries) < last - first or not all(
            e & _THERE and (not zero or e & int(_FRAME) != zero) for e in entries
        ):
            raise OSError(14, "not resident")
        raw = os.pread(self._mem, 8 * count, address)
        if len(raw) < 8 * count:
            raise OSError(14, "not readable")
        return struct.unpack(f"<{count}Q", raw)

    def head(self, address: int, count: int) -> bytes:
        """The first bytes of a page; none if it is not resident, or the time for a look is over."""
        if self.effort.over:
            return b""
        try:
            entry = os.pread(self._pagemap, 8, 8 * (address // PAGE))
            there = int.from_bytes(entry, "little") & _THERE
            return os.pread(self._mem, count, address) if there else b""
        except OSError:
            return b""

    def count(self, start: int, end: int) -> Counts:
        """What is resident from ``start`` to ``end``. OSError before Linux 6.7."""
        return pagemap_scan.count(self._pagemap, start, end)

    def pair(self, address: int) -> tuple[int, int]:
        """The two words at the beginning of a page that is known to be resident; 0, 0 if it has
        gone.
        """
        try:
            raw = os.pread(self._mem, 16, address)
        except OSError:
            return 0, 0
        return _PAIR.unpack(raw) if len(raw) == 16 else (0, 0)

    def page(self, address: int) -> bytes:
        """The page at an address that is known to be resident; empty if it has gone."""
        try:
            raw = os.pread(self._mem, PAGE, address)
        except OSError:
            return b""
        return raw if len(raw) == PAGE else b""
