"""Chunks followed through words of memory, against a plain reading of the same rules."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.process.heaps.glibc_chunks import (
    BrokenChunk,
    follow_chunks,
    may_be_links,
    sum_overlaps,
)
from dballoc.process.memory_reader import find_present_pages

SIZED = frozenset({6, 10})
CHUNKS = st.lists(st.tuples(st.integers(2, 8).map(lambda n: 2 * n), st.booleans()), max_size=40)


def make_words(chunks: list[tuple[int, bool]], before: int, behind: int) -> list[int]:
    """Chunks of (words, used) behind ``before`` words; the size word behind the last one is there,
    and ``behind`` more words.
    """
    words = [0] * before
    previous_used = 1
    for length, used in chunks:
        words += [0, length << 3 | previous_used, *[0] * (length - 2)]
        previous_used = int(used)
    return [*words, 0, 64 << 3 | previous_used, *[0] * behind]


@given(CHUNKS, st.integers(0, 3).map(lambda n: 2 * n), st.integers(0, 5), st.integers(1, 50))
def test_sound_chunks_are_what_they_were_made_of(
    chunks: list[tuple[int, bool]], before: int, behind: int, most: int
) -> None:
    words = make_words(chunks, before, behind)
    stop = before + sum(length for length, _ in chunks)
    run = follow_chunks(words, before, stop, most=most, lengths=SIZED, large=8, fence=False)
    expected = chunks[:most]
    edges = [before]
    for length, _ in expected:
        edges.append(edges[-1] + length)
    assert (run.first, run.end, run.count) == (before, edges[-1], len(expected))
    assert not run.fenced
    free = [
        pair for pair, (_, used) in zip(pairwise(edges), expected[:-1], strict=False) if not used
    ]
    assert list(zip(run.free_starts, run.free_ends, strict=True)) == free
    is_last = [number == len(expected) - 1 for number in range(len(expected))]
    assert run.sized == [
        edge
        for edge, (length, used), last in zip(edges, expected, is_last, strict=False)
        if length in SIZED and (used or last)
    ]
    assert run.large == [
        edge
        for edge, (length, used), last in zip(edges, expected, is_last, strict=False)
        if length >= 8 and (used or last)
    ]
    if expected:
        assert run.last == edges[-2]


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda n: n << 3 | 1), max_size=60),
    st.integers(0, 20),
    st.integers(0, 80),
    st.booleans(),
)
def test_any_words_end_somewhere_within_bounds(
    words: list[int], first: int, stop: int, fence: bool
) -> None:
    broken: BrokenChunk | None = None
    try:
        run = follow_chunks(words, first, stop, most=30, lengths=SIZED, large=8, fence=fence)
    except BrokenChunk as error:
        broken = error
    if broken:
        assert first <= broken.at < min(stop, len(words))
        assert words[broken.at + 1] >> 3 == broken.size >> 3
        return
    assert first <= run.end <= max(first, stop)
    assert run.count <= 30
    edges = [edge for pair in zip(run.free_starts, run.free_ends, strict=True) for edge in pair]
    assert edges == sorted(edges)
    assert all(first <= edge <= run.end for edge in edges)


def test_a_fence_post_ends_a_heap_and_breaks_the_top_arena() -> None:
    words = [0, 4 << 3 | 1, 0, 0, 0, 2 << 3 | 1, 0, 0]
    run = follow_chunks(words, 0, 8, most=9, lengths=SIZED, large=8, fence=True)
    assert (run.end, run.count, run.fenced) == (4, 1, True)
    with pytest.raises(BrokenChunk) as broken:
        follow_chunks(words, 0, 8, most=9, lengths=SIZED, large=8, fence=False)
    assert (broken.value.at, broken.value.size) == (4, 16)


RANGES = st.lists(st.integers(1, 30), max_size=20).map(
    lambda steps: [sum(steps[: i + 1]) for i in range(len(steps))]
)


@given(RANGES, RANGES)
def test_overlaps_are_those_of_the_bytes(edges: list[int], gap_edges: list[int]) -> None:
    ranges, gaps = (
        list(zip(edges[::2], edges[1::2], strict=False)),
        list(zip(gap_edges[::2], gap_edges[1::2], strict=False)),
    )
    plain = {byte for start, end in ranges for byte in range(start, end)} & {
        byte for start, end in gaps for byte in range(start, end)
    }
    assert sum_overlaps([a for a, _ in ranges], [b for _, b in ranges], gaps) == len(plain)


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ([0, 0, 0, 0], False),
        ([0, 32, 0, 0], True),
        ([0, 33, 0, 0], False),
        ([0, 32], True),  # it reaches beyond, so it cannot be judged
    ],
)
def test_links_of_a_cache(words: list[int], fits: bool) -> None:
    assert may_be_links(words, 0, 4) is fits


@given(
    st.lists(
        st.tuples(st.integers(0, 511), st.sampled_from([0, 7, 0x0700, 0x123456, 2**55 - 1])),
        max_size=50,
    ),
    st.sampled_from([0, 7, 0x123456]),
)
def test_present_pages_are_those_of_each_entry(
    entries: list[tuple[int, int]], zero_frame: int
) -> None:
    """Nine bits of flags above the frame's number, the highest of which is: present."""
    numbers = [flags << 55 | frame for flags, frame in entries]
    raw = struct.pack(f"<{len(numbers)}Q", *numbers)
    plain = [
        bool(number >> 63) and not (zero_frame and number & (2**55 - 1) == zero_frame)
        for number in numbers
    ]
    assert list(map(bool, find_present_pages(raw, zero_frame))) == plain
