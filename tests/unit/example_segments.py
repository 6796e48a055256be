"""Segments of mimalloc, as its layouts have them."""

import struct

from dballoc.process.heaps.mimalloc_heap import SLICE, Page, PageLayout, Segment

PAGES = [
    Page(first=1, slices=1, block=112, capacity=581, used=580),
    Page(first=2, slices=8, block=20480, capacity=25, used=10),
    Page(first=10, slices=48, block=3 << 20, capacity=1, used=1),
    Page(first=58, slices=454, block=0, capacity=0, used=0),
]


WHOLE = Segment(512, 1, PAGES)


LARGE = Segment(641, 1, [Page(first=1, slices=640, block=40 << 20, capacity=1, used=1)])


def image(segment: Segment, layout: PageLayout, words_before: int = 28) -> bytearray:
    """The first 64 KiB of a segment."""
    found = bytearray(SLICE)
    kind = int(segment.slices != 512)
    tail = segment.slices, segment.info, kind, min(segment.slices, 512), 0x7F8D3B3E3740
    struct.pack_into("<5Q", found, 8 * words_before, *tail)
    start = 8 * (words_before + 5)
    for page in (
        Page(first=0, slices=segment.info, block=segment.info * SLICE, capacity=0, used=0),
        *segment.pages,
    ):
        at = start + page.first * layout.bytes
        struct.pack_into("<2I", found, at, page.slices, 0)
        struct.pack_into("<2H", found, at + 10, page.capacity, page.capacity)
        for (offset, kind_of), value in ((layout.used, page.used), (layout.block, page.block)):
            struct.pack_into(kind_of, found, at + offset, value)
    return found
