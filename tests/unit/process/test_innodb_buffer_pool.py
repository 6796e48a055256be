"""The buffer pool by its pages, within whatever else the kernel has put into its mapping."""

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.process import innodb_buffer_pool, smaps
from dballoc.process.mapping_kind import MappingKind, classify_mappings
from dballoc.process.pagemap_scan import PageCounts

MIB = 1 << 20
START = 0x774C00000000
PAGE = 16 << 10
POINTERS = struct.pack("<5Q", *range(0x774C00001000, 0x774C00006000, 0x1000))[:38]


def header(number: int, kind: int = 17855) -> bytes:
    """Of a page as InnoDB writes it."""
    return struct.pack(">IIIIQHQI", 0x12345678, number, 0xFFFFFFFF, number + 1, 1 << 30, kind, 0, 5)


def mapping(size: int) -> smaps.MemoryMapping:
    [found] = smaps.parse_smaps(
        f"{START:x}-{START + size:x} rw-p 00000000 00:00 0\nRss: {size >> 10} kB\n"
    )
    return replace(found, flags=None)


def whole(start: int, end: int) -> PageCounts:
    return PageCounts(end - start)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (header(3), True),
        (header(0, 8), True),
        (header(9, 2), True),
        (bytes(38), False),
        (b"", False),
        (header(3)[:20], False),
        (header(3, 0), False),
        (header(3, 0x7FFF), False),
        (POINTERS, False),
    ],
)
def test_a_page_is_known_by_its_header(text: bytes, is_one: bool) -> None:
    assert innodb_buffer_pool.is_page_header(text) is is_one


@given(
    before=st.integers(0, 400),
    pool=st.integers(256, 4000),
    after=st.integers(0, 400),
    filled=st.floats(0.5, 1),
)
def test_it_is_found_between_others(before: int, pool: int, after: int, filled: float) -> None:
    """Chunks of 128 MiB that begin with descriptors; what was never used is not there; a heap on
    both sides.
    """
    begin, end = START + before * MIB, START + (before + pool) * MIB
    used = begin + int(pool * MIB * filled)
    noise = random.Random(before)

    def head(at: int) -> bytes:
        if not begin <= at < end:
            # A few copies of pages, pointers, zeros.
            return noise.choices([header(1), POINTERS, bytes(38)], [1, 60, 20])[0]
        if (at - begin) % (128 * MIB) < 3 * MIB:
            return POINTERS
        return header(at // PAGE & 0xFFFF) if at < used else b""

    found = innodb_buffer_pool.split_off_buffer_pool(
        [mapping((before + pool + after) * MIB)], head, whole, alone=False
    )
    assert sum(m.rss for m in found) == (before + pool + after) * MIB
    [mine] = [m for m in found if m.innodb]
    # Little of something else, and a copy near by, may be taken for a part of it.
    near = max(32 * MIB, pool * MIB // 25)
    assert abs(mine.start - begin) <= near
    assert used - near <= mine.end <= end + near
    assert classify_mappings(found, [], (), own_malloc=True)[found.index(mine)] is MappingKind.POOL


def test_a_pool_that_is_alone_is_the_whole_mapping() -> None:
    """Of a MariaDB that has filled a quarter of it; what describes the other pages is there."""

    def head(at: int) -> bytes:
        place = at - START
        return POINTERS if place % (32 * MIB) < MIB else header(1) if place < 256 * MIB else b""

    [found] = innodb_buffer_pool.split_off_buffer_pool(
        [mapping(1000 * MIB)], head, whole, alone=True
    )
    assert (found.innodb, found.size) == (True, 1000 * MIB)
    assert (
        len(
            innodb_buffer_pool.split_off_buffer_pool(
                [mapping(1000 * MIB)], head, whole, alone=False
            )
        )
        == 2
    )
    heap = mapping(1000 * MIB)
    assert innodb_buffer_pool.split_off_buffer_pool(
        [heap], lambda at: POINTERS, whole, alone=True
    ) == [heap]


def test_a_heap_with_copies_is_no_pool() -> None:
    noise = random.Random(1)

    def head(at: int) -> bytes:
        return noise.choices([header(1), b"\x01" * 38], [1, 9])[0]

    heap = mapping(1000 * MIB)
    assert innodb_buffer_pool.split_off_buffer_pool([heap], head, whole, alone=False) == [heap]


def test_flags_are_believed() -> None:
    told = replace(mapping(1000 * MIB), flags=frozenset({"rd", "wr"}))
    assert innodb_buffer_pool.split_off_buffer_pool(
        [told], lambda at: header(1), whole, alone=False
    ) == [told]
    [found] = innodb_buffer_pool.split_off_buffer_pool(
        [mapping(1000 * MIB)], lambda at: header(1), whole, alone=False
    )
    assert (found.innodb, found.size) == (True, told.size)
