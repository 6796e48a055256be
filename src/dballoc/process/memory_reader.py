"""Another process's memory, read from outside: /proc/PID/pagemap tells which pages are present,
/proc/PID/mem what is in them.

Only present pages are read. Reading an absent one would map a zero page into the process, or bring
the page back from swap.
"""

import ctypes
import mmap
import os
import struct
from array import array
from collections.abc import Iterator
from functools import cache, cached_property
from types import TracebackType
from typing import Self

from dballoc.host.abandonable import touches
from dballoc.host.process.handle import Process
from dballoc.process import pagemap_scan
from dballoc.process.pagemap_scan import PageCounts
from dballoc.process.read_limits import MOST, ReadBudget, Work
from dballoc.process.resident_span import PAGE as PAGE
from dballoc.process.resident_span import Runs, append_runs, find_runs
from dballoc.process.resident_span import Span as Span

# proc_pid_pagemap(5).
_PRESENT, _SWAPPED = 1 << 63, 1 << 62

# The page's frame number; 0 for readers without CAP_SYS_ADMIN.
_FRAME = (1 << 55) - 1

# For the highest byte of an entry, whether the page is present.
_IS_PRESENT = bytes(byte >> 7 for byte in range(256))

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
    return int.from_bytes(raw, "little") & _FRAME


def find_present_pages(entries: bytes, zero_frame: int) -> bytearray:
    """Return a byte for each of pagemap's entries: 1 if the page is present and in RSS, which the
    page with the number ``zero_frame`` is not (0: it is not known), else 0. Pure.
    """
    present = bytearray(entries[7::8].translate(_IS_PRESENT))
    if zero_frame:
        # Whole words are compared only where the low bytes of the frame's number stand.
        low_bytes = zero_frame.to_bytes(8, "little")[:6]
        at = entries.find(low_bytes)
        while at >= 0:
            if (
                at % 8 == 0
                and int.from_bytes(entries[at : at + 8], "little") & _FRAME == zero_frame
            ):
                present[at // 8] = 0
            at = entries.find(low_bytes, at + 1)
    return present


class Memory:
    """The memory of one process. Raises OSError where it cannot be read; use as a context
    manager.
    """

    def __init__(self, process: Process, budget: ReadBudget | None = None) -> None:
        if budget:
            self.budget = budget
        self._skipped = touches.find_skipped_ranges(process)
        self._mem = os.open(process.home / "mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pagemap = os.open(process.home / "pagemap", os.O_RDONLY | os.O_CLOEXEC)
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
        snapshot may read. Raises OSError if the process is gone.
        """
        start, end = start // PAGE * PAGE, end // PAGE * PAGE
        try:
            runs = pagemap_scan.iterate_resident_runs(self._pagemap, start, end)
            return self._make_span(start, end, runs)
        except OSError:
            return self._make_span(start, end, self._read_pagemap_runs(start, end))

    def _make_span(self, start: int, end: int, pieces: Iterator[Runs]) -> Span:
        runs = Runs(array("Q"), array("Q"))
        for piece in pieces:
            append_runs(runs, piece)
            if len(runs.starts) >= MOST[Work.RUNS]:
                self.budget.note_limit(Work.RUNS)
                break
            if self.budget.out_of_time:
                break
        return Span(start, end, runs)

    def _read_pagemap_runs(self, start: int, end: int) -> Iterator[Runs]:
        """Yield the runs of resident pages by pagemap's entry for each page (before Linux 6.7)."""
        for at in range(start // PAGE, end // PAGE, _ENTRIES):
            raw = os.pread(self._pagemap, 8 * min(_ENTRIES, end // PAGE - at), 8 * at)
            yield find_runs(at * PAGE, find_present_pages(raw, _zero_frame()))

    def copy_words(self, span: Span, start: int, end: int) -> memoryview:
        """Return the 64-bit words from ``start`` to ``end``, within ``span``; 0 where nothing is
        resident.
        """
        view = memoryview(bytearray(end - start))
        for a, b in span.iterate_runs(start, end):
            self._begin_touch(a, b)
            try:
                os.preadv(self._mem, [view[a - start : b - start]], a)
            finally:
                touches.end_touch()
        return view.cast("Q")

    def words(self, address: int, count: int = 1) -> tuple[int, ...]:
        """Read that many 64-bit words at an address. Raises OSError unless all of them are
        resident.
        """
        zero = _zero_frame()
        if not all(
            e & _PRESENT and (not zero or e & _FRAME != zero)
            for e in self._read_entries(address, 8 * count)
        ):
            raise OSError(14, "not resident")
        raw = self.read(address, 8 * count)
        if len(raw) < 8 * count:
            raise OSError(14, "not readable")
        return struct.unpack(f"<{count}Q", raw)

    def read(self, address: int, count: int) -> bytes:
        """Read bytes, fewer at the end of a mapping: this brings pages into memory that are not
        there. Raises OSError if there are none, or their file system did not answer.
        """
        self._begin_touch(address, address + count)
        try:
            return os.pread(self._mem, count, address)
        finally:
            touches.end_touch()

    def is_loaded(self, address: int, count: int) -> bool:
        """Whether those bytes are in memory, or in swap: no file is asked for them. Raises OSError
        if the process is gone.
        """
        entries = self._read_entries(address, count)
        return all(e & (_PRESENT | _SWAPPED) for e in entries)

    def _read_entries(self, address: int, count: int) -> tuple[int, ...]:
        """Read pagemap's entries of the pages of these bytes; 0 where there is none."""
        first, last = address // PAGE, -(-(address + count) // PAGE)
        raw = os.pread(self._pagemap, 8 * (last - first), 8 * first)
        return struct.unpack(f"<{last - first}Q", raw.ljust(8 * (last - first), b"\0"))

    def _begin_touch(self, start: int, end: int) -> None:
        for skipped in self._skipped:
            if start < skipped.end and skipped.start < end:
                raise touches.refuse_memory(skipped)
        touches.begin_address(start)

    def read_page_start(self, address: int, count: int) -> bytes:
        """Read the first ``count`` bytes of a page; none if it is not resident, or the time for the
        snapshot is over.
        """
        if self.budget.out_of_time:
            return b""
        try:
            entry = os.pread(self._pagemap, 8, 8 * (address // PAGE))
            is_present = int.from_bytes(entry, "little") & _PRESENT
            return self.read(address, count) if is_present else b""
        except OSError:
            return b""

    def count_pages(self, start: int, end: int) -> PageCounts:
        """Count what is resident from ``start`` to ``end``, in bytes. OSError before Linux 6.7."""
        return pagemap_scan.count_pages(self._pagemap, start, end)

    def read_first_words(self, address: int) -> tuple[int, int]:
        """Read the first two words of a page that is known to be resident; 0, 0 if it is gone."""
        try:
            raw = self.read(address, 16)
        except OSError:
            return 0, 0
        return _PAIR.unpack(raw) if len(raw) == 16 else (0, 0)

    def page(self, address: int) -> bytes:
        """Read a page that is known to be resident; empty if it is gone."""
        try:
            raw = self.read(address, PAGE)
        except OSError:
            return b""
        return raw if len(raw) == PAGE else b""
