"""The walk of mimalloc's segments on made images: as they should be, of both layouts, torn and
hostile.
"""

import struct

import pytest
from example_segments import LARGE, WHOLE, image
from hypothesis import given
from hypothesis import strategies as st

from dballoc.process.heaps import mimalloc_heap
from dballoc.process.heaps.mimalloc_heap import LAYOUTS, SLICE, PageLayout, Segment, parse_segment


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("segment", [WHOLE, LARGE], ids=["pages", "one block"])
def test_a_segment_is_read_in_its_own_layout(segment: Segment, layout: PageLayout) -> None:
    for words in (22, 28, 31):
        made = bytes(image(segment, layout, words))
        assert [parse_segment(made, other) for other in LAYOUTS] == [
            segment if other is layout else None for other in LAYOUTS
        ]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (8 * 28, struct.pack("<Q", 513)),
        (8 * 29, struct.pack("<Q", 0)),
        (8 * 30, struct.pack("<Q", 2)),
        (8 * 31, struct.pack("<Q", 511)),
        (8 * 33, struct.pack("<I", 2)),
        (8 * 33 + 80, struct.pack("<I", 0)),
        (8 * 33 + 80, struct.pack("<I", 2)),
        (8 * 33 + 80 + 4, struct.pack("<I", 80)),
        (8 * 33 + 80 + 24, struct.pack("<I", 582)),
        (8 * 33 + 80 + 28, struct.pack("<I", 4096)),
    ],
)
def test_what_contradicts_itself_is_no_segment(at: int, text: bytes) -> None:
    made = image(WHOLE, LAYOUTS[0])
    made[at : at + len(text)] = text
    assert parse_segment(bytes(made), LAYOUTS[0]) is None


@given(
    st.binary(max_size=2048),
    st.integers(0, SLICE - 2048),
    st.sampled_from(LAYOUTS),
    st.sampled_from([WHOLE, LARGE]),
)
def test_a_hostile_one_never_has_more_than_its_slices(
    noise: bytes, at: int, layout: PageLayout, segment: Segment
) -> None:
    made = image(segment, layout)
    made[at : at + len(noise)] = noise
    found = parse_segment(bytes(made), layout)
    if found:
        assert sum(page.slices for page in found.pages) + found.info == found.slices
        assert all(
            page.used <= page.capacity and page.block <= page.slices * SLICE for page in found.pages
        )


def test_everything_else_is_none() -> None:
    for text in (bytes(SLICE), b"\xff" * SLICE, b"\x01" * SLICE):
        assert all(parse_segment(text, layout) is None for layout in LAYOUTS)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (278528, 327680), (450560, 458752), (524352, 1 << 20), (716800, 1 << 20), (2883584, 3 << 20), (4194367, 4718592),
        (7373032, 7864320), (8390864, 9 << 20), (15040000, 15 << 20), (16778224, 17 << 20), (42240000, 44 << 20),
    ],
)  # fmt: skip
def test_what_it_makes_of_large_blocks(asked: int, given: int) -> None:
    """Of 2.0.9, seen in MySQL 8.0.33."""
    assert given - mimalloc_heap.find_most_rounding(given) < asked <= given
