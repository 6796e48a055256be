"""The walk of glibc's heap on made images: as they should be, torn while they are read, and
hostile.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.process_memory.heaps import glibc_heap
from dballoc.process_memory.heaps.allocator_statistics import LIVE_LARGE, LIVE_SMALL
from dballoc.process_memory.heaps.glibc_arenas import ArenaUsage, GlibcHeap
from dballoc.process_memory.heaps.glibc_heap import HEAP, LAYOUTS, ArenaLayout
from dballoc.process_memory.memory_reader import PAGE, Memory, Span
from dballoc.process_memory.smaps import MemoryMapping

pytestmark = pytest.mark.long

LIBC = "/lib/libc.so.6"
DATA, BRK, ARENA, LARGE = 0x7F0000100000, 0x555500000000, 0x7F0004000000, 0x7F0010000000
PAGES = {DATA: 4, BRK: 34, ARENA: 33, LARGE: 70}
MUTEX_AND_FLAGS = 0


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


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.versions)
def test_large_blocks_in_an_arena_are_counted_by_size_and_are_not_small(
    layout: ArenaLayout,
) -> None:
    """Three blocks of 136 KiB and one of 8 KiB in one arena, a free one of 136 KiB behind them."""
    BIG, MIDDLE, pages = 136 << 10, 8 << 10, 200
    image = Image()
    image.parts[BRK] = bytearray(pages * PAGE)
    main = DATA + 0x80
    at, before = BRK, 1
    for size, used in ((BIG, 1), (MIDDLE, 1), (BIG, 1), (BIG, 1), (BIG, 0), (64, 1)):
        image.put(at + 8, size | before)
        at, before = at + size, used
    image.put(at + 8, (BRK + pages * PAGE - at) | 1)
    image.put(main + layout.top, at)
    image.put(main + layout.next, main)
    image.put(main + layout.system, pages * PAGE)
    heap = replace(mappings(image)[0], end=BRK + pages * PAGE, rss=pages * PAGE)
    walk = glibc_heap.walk_heap(image, [heap, mappings(image)[1]], LIBC, {DATA})
    assert [(g.size, g.count, g.bytes) for g in walk.groups] == [
        (BIG, 3, 3 * BIG),
        (MIDDLE, 1, MIDDLE),
    ]
    assert [(block.size, block.resident) for block in walk.blocks] == [(BIG, BIG)] * 3
    live = {h.owner: h.resident for h in walk.statistics.holdings}
    assert live[LIVE_LARGE] == 3 * BIG
    assert live[LIVE_SMALL] == MIDDLE + 64 - 2 * 8
    assert walk.statistics.live == 3 * BIG + MIDDLE + 64
    # Of the free block all pages but the one with its fields, and the top of the main arena.
    first = -(-(BRK + 3 * BIG + MIDDLE + 48) // PAGE) * PAGE
    assert walk.trimmable == (BRK + 4 * BIG + MIDDLE) // PAGE * PAGE - first + (
        BRK + pages * PAGE - -(-(at + 48) // PAGE) * PAGE
    )


FREE = sum(64 + 16 * (i % 8) for i in range(3, 100, 4))
ALL = sum(64 + 16 * (i % 8) for i in range(100)) + 1024


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.versions)
def test_a_sound_image_is_read_to_the_byte(layout: ArenaLayout) -> None:
    found = read(sound(layout))
    assert found.trouble == []
    main, other = found.arenas
    own = 0x290 if layout.fast is not None else 0x300
    for books, pages in ((main, PAGES[BRK]), (other, PAGES[ARENA])):
        assert books.system == pages * PAGE
        assert books.tcache == 2 * 64
        assert books.live == ALL - FREE + own - 2 * 64
        assert books.live + books.tcache + books.fast + books.free + books.metadata == pages * PAGE
    [[block]] = found.mapped.values()
    assert (block.address, block.size, block.resident) == (LARGE, 64 * PAGE, 64 * PAGE)


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


# Addresses that matter to a walk, and some around them.
PLACES = st.sampled_from([DATA, BRK, ARENA, LARGE]).flatmap(
    lambda s: st.integers(0, PAGES[s] * PAGE // 8 - 1).map(lambda i: s + 8 * i)
)
NEAR = st.builds(
    lambda base, more: base + 8 * more,
    st.sampled_from([DATA + 0x80, ARENA, ARENA + 0x30, BRK, LARGE, ARENA + HEAP]),
    st.integers(0, 300),
)
WHERE = PLACES | NEAR
WORDS = (
    st.integers(0, 2**64 - 1)
    | WHERE
    | st.sampled_from(
        [
            0,
            1,
            2,
            7,
            16,
            17,
            32,
            33,
            0x291,
            0x301,
            0x311,
            PAGE | 2,
            HEAP,
            HEAP | 1,
            2**63,
            2**64 - 16,
        ]
    )
    | st.integers(0, 1 << 17)
)
DAMAGE = st.lists(st.tuples(WHERE, WORDS), max_size=12)
ABSENT = st.frozensets(
    st.sampled_from([s + PAGE * i for s, count in PAGES.items() for i in range(count)]), max_size=20
)
WHICH = st.sampled_from(LAYOUTS)


@settings(max_examples=150)
@given(WHICH, DAMAGE, ABSENT)
def test_a_hostile_image_neither_crashes_nor_hangs_nor_adds_up_to_more(
    layout: ArenaLayout, damage: list[tuple[int, int]], absent: frozenset[int]
) -> None:
    image = sound(layout, absent=absent)
    for address, word in damage:
        image.put(address, word)
    check(read(image), image)


@settings(max_examples=80)
@given(WHICH, st.lists(st.tuples(WHERE, WORDS), min_size=1, max_size=40), st.integers(1, 30))
def test_one_that_changes_while_it_is_read(
    layout: ArenaLayout, changes: list[tuple[int, int]], every: int
) -> None:
    left = iter(changes)

    def meanwhile(image: Image) -> None:
        if image.reads % every == 0 and (change := next(left, None)):
            image.put(*change)

    image = sound(layout, meanwhile=meanwhile)
    check(read(image), image)


@settings(max_examples=30)
@given(WHICH, st.randoms(use_true_random=False), st.integers(1, 1000))
def test_noise(layout: ArenaLayout, random: Any, words: int) -> None:
    image = sound(layout)
    for _ in range(words):
        start = random.choice(list(PAGES))
        image.put(
            start + 8 * random.randrange(PAGES[start] * PAGE // 8), random.getrandbits(64) & ~8
        )
    check(read(image), image)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.versions)
def test_a_top_chunk_before_the_first(layout: ArenaLayout) -> None:
    image = sound(layout)
    image.put(ARENA + 0x30 + layout.top, ARENA)
    check(found := read(image), image)
    assert "the top chunk lies before the first" in found.trouble[0]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.versions)
@pytest.mark.parametrize("beside", range(1, 16))
def test_a_top_chunk_beside_a_chunk(layout: ArenaLayout, beside: int) -> None:
    """Where no chunk can begin: neither read for ever, nor taken for the heap's end."""
    image = sound(layout)
    [top] = image.words(ARENA + 0x30 + layout.top)
    image.put(ARENA + 0x30 + layout.top, top + beside)
    check(found := read(image), image)
    assert f"a top chunk at {top + beside:#x}" in found.trouble[0]


def _loops() -> Iterator[tuple[str, Callable[[Image, ArenaLayout], None]]]:
    def fast(image: Image, layout: ArenaLayout) -> None:
        if layout.fast is not None:
            # A chunk that follows itself, unmangled, and mangled as since 2.32.
            image.put(DATA + 0x80 + layout.fast, BRK + 0x400)
            image.put(BRK + 0x410, (BRK + 0x410 >> 12) ^ (BRK + 0x400))

    def ring(image: Image, layout: ArenaLayout) -> None:
        image.put(ARENA + 0x30 + layout.next, ARENA + 0x30)

    def cache(image: Image, layout: ArenaLayout) -> None:
        image.put(BRK + 16, *[2**64 - 1] * 16)
        image.put(BRK + 16 + 128, *[BRK + 0x400] * 64)

    yield "fast bin", fast
    yield "ring of arenas", ring
    yield "cache that claims more than there is", cache


@pytest.mark.parametrize(
    ("name", "harm"), list(_loops()), ids=lambda x: x if isinstance(x, str) else ""
)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.versions)
def test_what_is_made_to_have_no_end(
    layout: ArenaLayout, name: str, harm: Callable[[Image, ArenaLayout], None]
) -> None:
    image = sound(layout)
    harm(image, layout)
    check(read(image), image)


def test_a_mapping_of_no_size_is_none() -> None:
    image = sound(LAYOUTS[0])
    empty = [replace(m, end=m.start, rss=0) for m in mappings(image)]
    assert (
        glibc_heap.walk_heap(image, glibc_heap.split_off_heaps(image, empty), LIBC, {DATA}).arenas
        == []
    )


def count_resident(image: Image, start: int, end: int) -> int:
    """Page by page, as slowly as can be."""
    first = start // PAGE * PAGE
    return sum(
        min(end, page + PAGE) - max(start, page)
        for page in range(first, end, PAGE)
        if page not in image.absent
    )


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(2, 1500).map(lambda n: 16 * n), st.booleans()), max_size=12),
    st.frozensets(st.integers(0, PAGES[BRK] - 1)),
    st.sampled_from([1, 2, 1 << 16]),
)
def test_a_heap_with_holes_is_what_its_chunks_are(
    chunks: list[tuple[int, bool]], holes: frozenset[int], batch: int
) -> None:
    """Holes are where no chunk has its header, as malloc leaves them."""
    image, at, before, rows = Image(), BRK, 1, []
    for size, used in chunks:
        if at + size + 16 > BRK + PAGES[BRK] * PAGE:
            break
        image.put(at + 8, size | before)
        rows.append((at, size, used))
        at, before = at + size, int(used)
    image.put(at + 8, 1024 | before)
    headers = {start // PAGE for start, *_ in rows} | {at // PAGE}
    image.absent = frozenset(
        BRK + PAGE * hole for hole in holes if BRK // PAGE + hole not in headers
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glibc_heap, "_BATCH", batch)
        span = image.span(BRK, BRK + PAGES[BRK] * PAGE)
        reading, end = glibc_heap._read_heap(image, span, BRK, at, last=True)
    assert (end, reading.chunks, reading.incomplete) == (at, len(rows), False)
    for is_used, size, resident in (
        (True, reading.live, reading.live_resident),
        (False, reading.free, reading.free_resident),
    ):
        alike = [(start, length) for start, length, used in rows if used == is_used]
        assert size == sum(length for _, length in alike)
        assert resident == sum(count_resident(image, a, a + length) for a, length in alike)
