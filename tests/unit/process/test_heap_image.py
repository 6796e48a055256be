"""The walk of glibc's heap on made images: as they should be, torn while they are read, and
hostile.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from example_heaps import ARENA, BRK, DATA, LARGE, LIBC, PAGES, Image, check, mappings, read, sound
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.process.heaps import glibc_heap
from dballoc.process.heaps.allocator_statistics import LIVE_LARGE, LIVE_SMALL
from dballoc.process.heaps.glibc_heap import HEAP, LAYOUTS, ArenaLayout
from dballoc.process.memory_reader import PAGE

pytestmark = pytest.mark.long

MUTEX_AND_FLAGS = 0


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
