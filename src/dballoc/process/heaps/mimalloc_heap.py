"""mimalloc's heap from outside: its segments, their pages, how many blocks of each are in use.
Release builds count no blocks.

Layouts as in mimalloc's types.h of 2.x, 64 bits, as libraries of 2.0.9 and 2.3.2 have them in
memory:

    segment    begins at a multiple of 32 MiB with its header: segment_slices (of 64 KiB),
               segment_info_slices, kind (0, or 1 with a single block that may be larger than
               32 MiB), slice_entries, thread_id, slices[]
    slice      slice_count, slice_offset (32 bits each); the first slice of a page or of a free
               span has the offset 0 and the count of its slices; a free span has no block size
    page       its first slice has: capacity @10 (16 bits), how many blocks it has begun to hand
               out; in a slice of 80 bytes used, block_size @24 (32 bits each); in one of 96 bytes
               used @32 (16 bits), block_size @40 (64 bits)

Versions differ in what stands before segment_slices. Where that field is, and which of both layouts
a slice has, is found by trying which one is consistent. Blocks that another thread has freed count
as used until their own thread collects them. 1.x and 3.x have other structures.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from dballoc.process.heaps.allocator_statistics import (
    HELD,
    LIVE_LARGE,
    LIVE_SMALL,
    METADATA,
    AllocatorStatistics,
    Holding,
    make_statistics,
)
from dballoc.process.heaps.heap_walk import (
    LEAST_COUNTED,
    MOST_SIZES,
    BlockGroup,
    LargeBlock,
    group_blocks,
)
from dballoc.process.memory_reader import PAGE as OF_KERNEL
from dballoc.process.memory_reader import Memory
from dballoc.process.read_limits import Work
from dballoc.process.smaps import MemoryMapping

SEGMENT, SLICE = 32 << 20, 64 << 10
_ENTRIES = SEGMENT // SLICE

# Where segment_slices may stand, in words of the header, and how many plausible places are tried: a
# header has the right one, and maybe another that looks like it.
_PLACES, _LIKELY = range(20, 64), 4
_TAIL = 5  # words from there to the slices
_MOST_INFO = 16

# A larger block has a page of its own (MI_MEDIUM_OBJ_SIZE_MAX).
_LARGE = 128 << 10
_TRIES = 3

# (size, rounding): a large block of at most that size was rounded up by less than that: to slices,
# to MI_MEDIUM_PAGE_SIZE, and the largest to more (os.c, _mi_os_good_alloc_size).
_ROUNDED = ((512 << 10, SLICE), (8 << 20, 512 << 10), (32 << 20, 1 << 20))
_MOST_ROUNDED = 4 << 20


@dataclass(frozen=True)
class PageLayout:
    """The layout of a slice that begins a page: its bytes, and (offset, format) of how many blocks
    are ``used`` and of the size of a ``block``.
    """

    bytes: int
    used: tuple[int, str]
    block: tuple[int, str]

    @cached_property
    def slice(self) -> struct.Struct:
        """The fields slice_count, slice_offset, capacity, reserved, used, block size."""
        (used, how), (block, how_large) = self.used, self.block
        between = block - used - struct.calcsize(how)
        return struct.Struct(f"<2I2x2H{used - 14}x{how[1]}{between}x{how_large[1]}")


LAYOUTS = (PageLayout(80, (24, "<I"), (28, "<I")), PageLayout(96, (32, "<H"), (40, "<Q")))


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page or a free span: its ``first`` slice and how many; the size of a ``block``, 0 in a free
    span; ``capacity``: how many blocks it has begun to hand out; ``used``: how many are in use.
    """

    first: int
    slices: int
    block: int
    capacity: int
    used: int


@dataclass(frozen=True)
class Segment:
    """A segment of so many ``slices``; the first ``info`` are its header."""

    slices: int
    info: int
    pages: list[Page]


@dataclass(frozen=True)
class MimallocHeap:
    """mimalloc's heap, a :class:`dballoc.process.heaps.heap_walk.HeapWalk`. ``blocks``:
    those with a page of their own; ``groups``: live blocks by size.
    """

    statistics: AllocatorStatistics
    blocks: list[LargeBlock]
    groups: list[BlockGroup]

    @property
    def trimmable(self) -> int | None:
        """None: a thread gives back its own pages alone."""
        return None

    @property
    def free_by_arena(self) -> list[int]:
        """Empty: it has none."""
        return []


def walk_heap(memory: Memory, mappings: Sequence[MemoryMapping]) -> MimallocHeap | None:
    """Read the segments within these mappings; None if there are none, as in another version of
    mimalloc. Raises OSError if the process is gone.
    """
    small = small_resident = 0
    blocks: list[LargeBlock] = []
    sizes: dict[int, int] = {}
    held = metadata = count = 0
    for at, segment in _iterate_segments(memory, mappings):
        count += 1
        span = memory.span(at, at + segment.slices * SLICE)
        metadata += span.count_resident(at, at + segment.info * SLICE)
        for page in segment.pages:
            start = at + SLICE * page.first
            resident = span.count_resident(start, start + SLICE * page.slices)
            # Blocks that are free now have been touched as much as those in use.
            alive = (
                min(page.used * page.block, resident * page.used // page.capacity)
                if page.capacity
                else 0
            )
            held += resident - alive
            counted = page.block in sizes or len(sizes) < MOST_SIZES
            if page.used and page.block >= LEAST_COUNTED and counted:
                sizes[page.block] = sizes.get(page.block, 0) + page.used
            if page.block > _LARGE and page.used == page.capacity == 1:
                blocks.append(LargeBlock(start, page.block, alive, find_most_rounding(page.block)))
            else:
                small += page.used * page.block
                small_resident += alive
    if not count:
        return None
    note = "free blocks of pages in use, and free spans"
    statistics = make_statistics(
        "mimalloc",
        [
            Holding(LIVE_SMALL, small, resident=small_resident),
            Holding(
                LIVE_LARGE,
                sum(b.asked for b in blocks),
                f"{len(blocks)} blocks",
                sum(b.resident for b in blocks),
            ),
            Holding(HELD, held, note, held),
            Holding(METADATA, metadata, f"headers of {count} segments", metadata),
        ],
    )
    return MimallocHeap(statistics, blocks, group_blocks(sizes))


def find_most_rounding(size: int) -> int:
    """Return the bytes that a large block of this size was rounded up by, as an upper bound that it
    does not reach.
    """
    return next((rounding for most, rounding in _ROUNDED if size <= most), _MOST_ROUNDED)


def _iterate_segments(
    memory: Memory, mappings: Sequence[MemoryMapping]
) -> Iterator[tuple[int, Segment]]:
    """Yield the address and the structure of each segment. Large blocks are not read."""
    layouts: Sequence[PageLayout] = LAYOUTS
    behind = 0
    # A segment of one block lies in these mappings too, so no segment is larger than all of them.
    most = sum(m.size for m in mappings) + SEGMENT
    for mapping in mappings:
        for at in memory.span(mapping.start, mapping.end).multiples(SEGMENT):
            if at < behind:
                continue
            if memory.budget.out_of_time or not memory.budget.remaining(Work.SLICES):
                memory.budget.spend(Work.SLICES)
                return
            fits: tuple[Segment, PageLayout] | None = None
            for _ in range(_TRIES):
                header = _read_header(memory, at, mapping)
                parsed = ((parse_segment(header, layout), layout) for layout in layouts if header)
                fits = next(
                    ((s, layout) for s, layout in parsed if s and s.slices * SLICE <= most), None
                )
                # An inconsistent header may have been read to its end, and in every layout.
                memory.budget.spend(
                    Work.SLICES, len(fits[0].pages) if fits else len(layouts) * _ENTRIES
                )
                if fits or not header:
                    break
            if fits:
                segment, layout = fits
                layouts, behind = (layout,), at + segment.slices * SLICE
                yield at, segment


def _read_header(memory: Memory, at: int, mapping: MemoryMapping) -> bytes:
    """Read the first slice of a segment; empty if its first page is not in memory."""
    end = min(at + SLICE, mapping.end)
    span = memory.span(at, end)
    return (
        bytes(memory.copy_words(span, at, end)).ljust(SLICE, b"\0")
        if span.count_resident(at, at + OF_KERNEL)
        else b""
    )


def parse_segment(header: bytes, layout: PageLayout) -> Segment | None:
    """Parse the first 64 KiB of a segment; None unless they are one in this layout, with slices
    that follow each other to the last one. Pure.
    """
    words = struct.unpack_from(f"<{_PLACES.stop + _TAIL}Q", header)
    for i in islice((i for i in _PLACES if _is_plausible(words[i : i + 4])), _LIKELY):
        slices, info = words[i : i + 2]
        pages = _parse_pages(header, (i + _TAIL) * 8, layout, slices, info)
        if pages is not None:
            return Segment(slices, info, pages)
    return None


def _is_plausible(words: Sequence[int]) -> bool:
    slices, info, kind, entries = words[0], words[1], words[2] & 0xFFFFFFFF, words[3]
    fits = (
        0 < info <= _MOST_INFO and info < slices and kind <= 1 and entries == min(slices, _ENTRIES)
    )
    return fits and (kind == 1 or slices == _ENTRIES)


def _parse_pages(
    header: bytes, start: int, layout: PageLayout, slices: int, info: int
) -> list[Page] | None:
    """Parse the pages and free spans behind the header's slices; None if they do not follow one
    another, or one has impossible values.
    """
    pages: list[Page] = []
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
            # The older layout has no room for the size of a block of more than 4 GiB.
            pages.append(
                Page(
                    first=first,
                    slices=count,
                    block=min(block, count * SLICE),
                    capacity=capacity if block else 0,
                    used=used if block else 0,
                )
            )
        first += count
    return pages
