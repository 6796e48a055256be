"""mimalloc's heap from outside: its segments, their pages, how many blocks of each are in use.
Release builds count no blocks.

Layouts as in mimalloc's types.h of 2.x, 64 bits, as libraries of 2.0.9 and 2.3.2 have them in
memory:

    segment    begins at a multiple of 32 MiB with its header; segment_slices (of 64 KiB),
    segment_info_slices, kind (0, or 1
               with a single block that may be larger than 32 MiB), slice_entries, thread_id,
               slices[]
    slice      slice_count, slice_offset (32 bits each); the first slice of a page or of a free span
    has the offset 0, and the
               count of its slices; a free span has no block size
    page       is its first slice: capacity @10 (16 bits), how many blocks it has begun to give out;
               used, block_size @24 (32 bits each) of 80 bytes; used @32 (16 bits), block_size @40
               (64) of 96 bytes

Headers differ between versions by what stands before segment_slices: where that is, and which of
both a page is, is found by what fits. Blocks that another thread has freed count as used until
their own thread collects them. 1.x and 3.x have other structures.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from dballoc.process_memory.heaps.allocator_account import (
    HELD,
    LIVE_LARGE,
    LIVE_SMALL,
    OWN,
    Account,
    Holding,
    account,
)
from dballoc.process_memory.heaps.glibc_heap import Block
from dballoc.process_memory.memory_reader import PAGE as OF_KERNEL
from dballoc.process_memory.memory_reader import Memory
from dballoc.process_memory.read_limits import Work
from dballoc.process_memory.smaps import Mapping

SEGMENT, SLICE = 32 << 20, 64 << 10
_ENTRIES = SEGMENT // SLICE

# Where segment_slices may stand, in words of the header. In one there is the place, and maybe
# another that looks like it.
_PLACES, _LIKELY = range(20, 64), 4
_TAIL = 5  # words from there to the slices
_MOST_INFO = 16

# A block beyond this has a page of its own (MI_MEDIUM_OBJ_SIZE_MAX).
_LARGE = 128 << 10
_TRIES = 3

# A large block of at most so many bytes has been rounded up by less than so many: to slices, to
# MI_MEDIUM_PAGE_SIZE, and the largest to more (os.c, _mi_os_good_alloc_size).
_ROUNDED = ((512 << 10, SLICE), (8 << 20, 512 << 10), (32 << 20, 1 << 20))
_MOST_ROUNDED = 4 << 20


@dataclass(frozen=True)
class Layout:
    """Of a slice that begins a page: bytes, and (offset, format) of its fields, the last one's
    ``block``.
    """

    bytes: int
    used: tuple[int, str]
    block: tuple[int, str]

    @cached_property
    def slice(self) -> struct.Struct:
        """Of a slice: slice_count, slice_offset, capacity, reserved, used, block size."""
        (used, how), (block, how_large) = self.used, self.block
        between = block - used - struct.calcsize(how)
        return struct.Struct(f"<2I2x2H{used - 14}x{how[1]}{between}x{how_large[1]}")


LAYOUTS = (Layout(80, (24, "<I"), (28, "<I")), Layout(96, (32, "<H"), (40, "<Q")))


@dataclass(frozen=True, kw_only=True)
class Page:
    """``first`` slice and how many; blocks of ``block`` bytes, 0 in a free span; ``capacity`` of
    them begun, ``used`` had.
    """

    first: int
    slices: int
    block: int
    capacity: int
    used: int


@dataclass(frozen=True)
class Segment:
    """``slices`` in all, the first ``info`` of which are its header."""

    slices: int
    info: int
    pages: list[Page]


@dataclass(frozen=True)
class Books:
    """``blocks``: those with a page of their own."""

    account: Account
    blocks: list[Block]


def read(memory: Memory, mappings: Sequence[Mapping]) -> Books | None:
    """What lies in the segments within these mappings; None if there are none, as of another
    version. OSError as it comes.
    """
    small = [0, 0]
    blocks: list[Block] = []
    held = own = count = 0
    for at, segment in _segments(memory, mappings):
        count += 1
        span = memory.span(at, at + segment.slices * SLICE)
        own += span.between(at, at + segment.info * SLICE)
        starts = at + SLICE * np.array([page.first for page in segment.pages], np.int64)
        sizes = SLICE * np.array([page.slices for page in segment.pages], np.int64)
        resident = span.each(starts, starts + sizes).tolist()
        for page, start, there in zip(segment.pages, starts.tolist(), resident, strict=True):
            # Blocks that are free now have been touched as much as others.
            alive = (
                min(page.used * page.block, there * page.used // page.capacity)
                if page.capacity
                else 0
            )
            held += there - alive
            if page.block > _LARGE and page.used == page.capacity == 1:
                blocks.append(Block(start, page.block, alive, rounded(page.block)))
            else:
                small[0] += page.used * page.block
                small[1] += alive
    if not count:
        return None
    note = "free blocks of pages in use, and free spans"
    found = account(
        "mimalloc",
        [
            Holding(LIVE_SMALL, small[0], resident=small[1]),
            Holding(
                LIVE_LARGE,
                sum(b.asked for b in blocks),
                f"{len(blocks)} blocks",
                sum(b.resident for b in blocks),
            ),
            Holding(HELD, held, note, held),
            Holding(OWN, own, f"headers of {count} segments", own),
        ],
    )
    return Books(found, blocks)


def rounded(size: int) -> int:
    """By less than how much a large block of this size has been rounded up."""
    return next((less for most, less in _ROUNDED if size <= most), _MOST_ROUNDED)


def _segments(memory: Memory, mappings: Sequence[Mapping]) -> Iterator[tuple[int, Segment]]:
    """Address and structure of each. What a large block holds is not looked at."""
    layouts: Sequence[Layout] = LAYOUTS
    behind = 0
    # A block that has a segment of its own lies in memory that may be written to.
    most = sum(m.size for m in mappings) + SEGMENT
    for mapping in mappings:
        for at in memory.span(mapping.start, mapping.end).multiples(SEGMENT):
            if at < behind:
                continue
            if memory.effort.over or not memory.effort.left(Work.SLICES):
                memory.effort.spend(Work.SLICES)
                return
            fits: tuple[Segment, Layout] | None = None
            for _ in range(_TRIES):
                words = _header(memory, at, mapping)
                found = ((parse(words, layout), layout) for layout in layouts if words)
                fits = next(
                    ((s, layout) for s, layout in found if s and s.slices * SLICE <= most), None
                )
                # What contradicts itself may have been looked at to its end, and in every layout.
                memory.effort.spend(
                    Work.SLICES, len(fits[0].pages) if fits else len(layouts) * _ENTRIES
                )
                if fits or not words:
                    break
            if fits:
                segment, layout = fits
                layouts, behind = (layout,), at + segment.slices * SLICE
                yield at, segment


def _header(memory: Memory, at: int, mapping: Mapping) -> bytes:
    """The first slice; empty if its beginning is not in memory."""
    end = min(at + SLICE, mapping.end)
    span = memory.span(at, end)
    return (
        bytes(memory.copy(span, at, end)).ljust(SLICE, b"\0")
        if span.between(at, at + OF_KERNEL)
        else b""
    )


def parse(header: bytes, layout: Layout) -> Segment | None:
    """A segment by its first 64 KiB, if they are that in this layout: slices that follow each other
    to the last one. Pure.
    """
    words = struct.unpack_from(f"<{_PLACES.stop + _TAIL}Q", header)
    for i in islice((i for i in _PLACES if _plausible(words[i : i + 4])), _LIKELY):
        slices, info = words[i : i + 2]
        pages = _pages(header, (i + _TAIL) * 8, layout, slices, info)
        if pages is not None:
            return Segment(slices, info, pages)
    return None


def _plausible(words: Sequence[int]) -> bool:
    slices, info, kind, entries = words[0], words[1], words[2] & 0xFFFFFFFF, words[3]
    fits = (
        0 < info <= _MOST_INFO and info < slices and kind <= 1 and entries == min(slices, _ENTRIES)
    )
    return fits and (kind == 1 or slices == _ENTRIES)


def _pages(header: bytes, start: int, layout: Layout, slices: int, info: int) -> list[Page] | None:
    """What begins behind the header's slices; None if one does not follow the other, or says what
    cannot be.
    """
    found: list[Page] = []
    first = 0
    while first < slices:
        at = start + first * layout.bytes
        if first >= _ENTRIES or at + layout.bytes > len(header):
            return None
        count, offset, capacity, reserved, used, block = layout.slice.unpack_from(header, at)
        if not 0 < count <= slices - first or offset or (first == 0 and count != info):
            return None
        if block and not (
            used <= capacity <= reserved and (reserved == 1 or reserved * block <= count * SLICE)
        ):
            return None
        if first:
            # Of a block of more than 4 GiB an older page does not know the size.
            found.append(
                Page(
                    first=first,
                    slices=count,
                    block=min(block, count * SLICE),
                    capacity=capacity if block else 0,
                    used=used if block else 0,
                )
            )
        first += count
    return found
