"""Images of glibc's heaps, sound and damaged."""

import struct
from collections.abc import Callable
from typing import Any

from dballoc.process.heaps import glibc_heap
from dballoc.process.heaps.glibc_arenas import ArenaUsage, GlibcHeap
from dballoc.process.heaps.glibc_heap import ArenaLayout
from dballoc.process.memory_reader import PAGE, Memory, Span
from dballoc.process.smaps import MemoryMapping

LIBC = "/lib/libc.so.6"


DATA, BRK, ARENA, LARGE = 0x7F0000100000, 0x555500000000, 0x7F0004000000, 0x7F0010000000


PAGES = {DATA: 4, BRK: 34, ARENA: 33, LARGE: 70}


class Image(Memory):
    """A process's memory that is made up. ``absent``: pages that are not resident; ``meanwhile``:
    called before each read.
    """

    def __init__(
        self,
        absent: frozenset[int] = frozenset(),
        meanwhile: Callable[["Image"], None] | None = None,
    ) -> None:
        self.parts = {start: bytearray(pages * PAGE) for start, pages in PAGES.items()}
        self.absent = absent
        self.meanwhile = meanwhile
        self.reads = 0

    def __enter__(self) -> "Image":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def put(self, address: int, *words: int) -> None:
        for start, part in self.parts.items():
            at = address - start
            if 0 <= at <= len(part) - 8 * len(words):
                struct.pack_into(f"<{len(words)}Q", part, at, *(w % 2**64 for w in words))

    def _there(self, page: int) -> bool:
        return page not in self.absent and any(
            s <= page < s + len(p) for s, p in self.parts.items()
        )

    def _bytes(self, start: int, count: int) -> bytes:
        self.reads += 1
        if self.meanwhile:
            self.meanwhile(self)
        for at, part in self.parts.items():
            if at <= start < at + len(part):
                return bytes(part[start - at : start - at + count])
        raise OSError(5, "not mapped")

    def span(self, start: int, end: int) -> Span:
        pages = [self._there(page * PAGE) for page in range(start // PAGE, end // PAGE)]
        return Span.of_pages(start, pages)

    def copy_words(self, span: Span, start: int, end: int) -> memoryview:
        found = bytearray(end - start)
        for page in range(start - start % PAGE, end, PAGE):
            a, b = max(start, page), min(end, page + PAGE)
            if b > a and self._there(page):
                got = self._bytes(a, b - a)
                found[a - start : a - start + len(got)] = got
        return memoryview(found).cast("Q")

    def words(self, address: int, count: int = 1) -> tuple[int, ...]:
        end = address + 8 * count
        if not all(self._there(page) for page in range(address - address % PAGE, end, PAGE)):
            raise OSError(14, "not resident")
        raw = self._bytes(address, 8 * count)
        if len(raw) < 8 * count:
            raise OSError(14, "not readable")
        return struct.unpack(f"<{count}Q", raw)

    def read_first_words(self, address: int) -> tuple[int, int]:
        try:
            found = self.words(address, 2)
        except OSError:
            return 0, 0
        return found[0], found[1]


def mappings(image: Image) -> list[MemoryMapping]:
    def one(start: int, path: str, permissions: str = "rw-p", inode: int = 0) -> MemoryMapping:
        end = start + PAGES[start] * PAGE
        rss = image.span(start, end).resident
        return MemoryMapping(
            start=start,
            end=end,
            permissions=permissions,
            offset=0,
            inode=inode,
            path=path,
            rss=rss,
            lazy=rss,
            swap=0,
            huge=0,
            hugetlb=0,
            flags=0,
            behind=frozenset(),
        )

    return [one(BRK, "[heap]"), one(DATA, LIBC, inode=7), one(ARENA, ""), one(LARGE, "")]


def sound(layout: ArenaLayout, caches: bool = True, **how: Any) -> Image:
    """Two arenas of 100 chunks each, every fourth free, a cache with two chunks, and a block of 64
    pages mapped by itself.
    """
    image = Image(**how)
    main = DATA + 0x80
    other = ARENA + 0x30
    first = ARENA + -(-(0x30 + layout.size) // 16) * 16
    for address, start, end, following in (
        (main, BRK, BRK + PAGES[BRK] * PAGE, other),
        (other, first, ARENA + 33 * PAGE, main),
    ):
        top = _chunks(image, layout, start, caches)
        image.put(top + 8, (end - top) | 1)
        image.put(address + layout.top, top)
        image.put(address + layout.next, following)
        image.put(address + layout.system, end - (start if address == main else ARENA))
    image.put(ARENA, other, 0, 33 * PAGE, 33 * PAGE)
    image.put(LARGE + 8, 64 * PAGE | 2)
    return image


def _chunks(image: Image, layout: ArenaLayout, at: int, caches: bool) -> int:
    if caches and layout.fast is not None:
        counts, entries = [0] * 64, [0] * 64
        counts[2], entries[2] = 2, at + 0x1000
        image.put(at + 8, 0x291)
        image.put(at + 16, *struct.unpack("<16Q", struct.pack("<64H", *counts)), *entries)
        at += 0x290
    elif caches:
        slots, lists = [16] * 76, [0] * 76
        slots[2], lists[2] = 14, at + 0x1000
        image.put(at + 8, 0x301)
        image.put(at + 16, *struct.unpack("<19Q", struct.pack("<76H", *slots)), *lists)
        at += 0x300
    before = 1
    for i in range(100):
        size = 64 + 16 * (i % 8)
        image.put(at + 8, size | before)
        before = 0 if i % 4 == 3 else 1
        at += size
    image.put(at + 8, 1024 | before)
    return at + 1024


def read(image: Image) -> GlibcHeap:
    parts = glibc_heap.split_off_heaps(image, mappings(image))
    return glibc_heap.walk_heap(image, parts, LIBC, {DATA})


def check(found: GlibcHeap, image: Image) -> None:
    """Nothing is below 0, nothing is more than there is, and looking has ended."""
    assert image.reads < 200_000
    for books in found.arenas:
        parts = _residents(books)
        assert min(parts) >= 0, books
        assert sum(parts) <= sum(image.span(m.start, m.end).resident for m in books.heaps)
        assert min(books.live, books.free, books.metadata) >= 0, books
    blocks = [block for row in found.mapped.values() for block in row]
    assert all(0 <= b.resident <= b.size for b in blocks)
    edges = [edge for b in blocks for edge in (b.address, b.address + b.size)]
    assert edges == sorted(edges)
    assert sum(b.resident for b in blocks) <= sum(
        PAGES[start] * PAGE for start in (ARENA, LARGE, BRK)
    )


def _residents(books: ArenaUsage) -> list[int]:
    return [
        books.live_resident,
        books.tcache,
        books.fast,
        books.free_resident,
        books.metadata_resident,
        books.unread,
    ]
