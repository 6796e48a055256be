"""Another process's memory, read from outside: /proc/PID/pagemap tells what is present, /proc/PID/mem what is in it.

Only present pages are read. Reading one that is not would map a zero page into the process, or bring one back from swap.
"""

import ctypes
import mmap
import os
import struct
from functools import cache
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dballoc.explain import pagescan
from dballoc.explain.pagescan import Counts

PAGE = os.sysconf("SC_PAGE_SIZE")

# proc_pid_pagemap(5).
_PRESENT, _SWAPPED = np.uint64(1 << 63), np.uint64(1 << 62)

# The page's frame, 0 where we may not know it (CAP_SYS_ADMIN).
_FRAME = np.uint64((1 << 55) - 1)

# How much of pagemap is held at a time: entries of 8 bytes.
_ENTRIES = 1 << 20

_PAIR = struct.Struct("<2Q")


@cache
def _zero_frame() -> int:
    """The frame of the kernel's page of zeros, which stands for untouched memory that was read: present, not in RSS. 0 where
    frames are not to be known.
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
    """Which bytes of an address range are resident. All questions are about that range."""

    def __init__(self, start: int, present: NDArray[np.bool_]) -> None:
        self.start = start
        self.present = present
        self._before = np.concatenate([[0], np.cumsum(present, dtype=np.int64)]) * PAGE

    @property
    def resident(self) -> int:
        """Bytes, of the whole range."""
        return int(self._before[-1])

    def bytes(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
        """Resident bytes of many ranges together."""
        return int((self._up_to(ends) - self._up_to(starts)).sum())

    def between(self, start: int, end: int) -> int:
        """Resident bytes of one range."""
        return self.bytes(np.array([start], np.int64), np.array([end], np.int64))

    def _up_to(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        offset = np.clip(addresses - self.start, 0, len(self.present) * PAGE)
        page = np.minimum(offset // PAGE, len(self.present) - 1)
        inside = np.where(self.present[page], offset - page * PAGE, 0)
        result: NDArray[np.int64] = self._before[page] + inside
        return result


class Memory:
    """The memory of one process. OSError where it cannot be read; use as a context manager."""

    def __init__(self, pid: int) -> None:
        self._mem = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._mem)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._mem)
        os.close(self._pagemap)

    def span(self, start: int, end: int) -> Span:
        """What is resident of whole pages from ``start`` to ``end``."""
        parts = []
        for at in range(start // PAGE, end // PAGE, _ENTRIES):
            count = min(_ENTRIES, end // PAGE - at)
            raw = os.pread(self._pagemap, 8 * count, 8 * at)
            entries = np.frombuffer(raw, np.uint64)
            present = (entries & _PRESENT) != 0
            if zero := _zero_frame():
                present &= (entries & _FRAME) != np.uint64(zero)
            parts.append(np.pad(present, (0, count - len(entries))))
        return Span(start, np.concatenate(parts) if parts else np.zeros(1, bool))

    def copy(self, span: Span, start: int, end: int) -> memoryview:
        """The words (64 bits) from ``start`` to ``end``, within ``span``; 0 where nothing is resident."""
        found = bytearray(end - start)
        first, last = (start - span.start) // PAGE, -(-(end - span.start) // PAGE)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], span.present[first:last], [False]]).astype(np.int8)))
        for run, stop in edges.reshape(-1, 2).tolist():
            a = max(start, span.start + (first + run) * PAGE)
            b = min(end, span.start + (first + stop) * PAGE)
            got = os.pread(self._mem, b - a, a)
            found[a - start : a - start + len(got)] = got
        return memoryview(found).cast("Q")

    def words(self, address: int, count: int = 1) -> tuple[int, ...]:
        """That many words at an address. OSError unless all of it is resident."""
        span = self.span(address - address % PAGE, -(-(address + 8 * count) // PAGE) * PAGE)
        if not span.present.all():
            raise OSError(14, "not resident")
        raw = os.pread(self._mem, 8 * count, address)
        if len(raw) < 8 * count:
            raise OSError(14, "not readable")
        return struct.unpack(f"<{count}Q", raw)

    def head(self, address: int, count: int) -> bytes:
        """The first bytes of a page; none if it is not resident."""
        try:
            entry = os.pread(self._pagemap, 8, 8 * (address // PAGE))
            there = int.from_bytes(entry, "little") & int(_PRESENT)
            return os.pread(self._mem, count, address) if there else b""
        except OSError:
            return b""

    def count(self, start: int, end: int) -> Counts:
        """What is resident from ``start`` to ``end``. OSError before Linux 6.7."""
        return pagescan.count(self._pagemap, start, end)

    def pair(self, address: int) -> tuple[int, int]:
        """The two words at the beginning of a page that is known to be resident; 0, 0 if it has gone."""
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
