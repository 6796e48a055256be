"""Follow glibc's chunks through a piece of memory that was read. Pure.

Layout as in glibc's malloc.c ("chunk"), in words of 64 bits: word 0 belongs to the chunk before, as
long as that is in use; word 1 is the size in bytes, a multiple of 16, whose low three bits are
flags, the lowest: whether the chunk before is in use. So words are what is counted here: a size
without its flags, shifted by 3 bits, is the chunk's length in words.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

# The shortest chunk; one of at most that length is a fence post (at the end of a heap).
_SHORTEST, _FENCE = 4, 2


class BrokenChunk(Exception):
    """At ``at`` (a word) stands no size that a chunk may have, but one of ``size`` bytes."""

    def __init__(self, at: int, size: int) -> None:
        self.at, self.size = at, size


@dataclass(frozen=True, kw_only=True)
class ChunkRun:
    """Chunks that follow one another, from the word ``first`` to ``end``.

    ``count``: how many; ``last``: where the last one begins; ``free_starts``, ``free_ends``: those
    that are free, but for the last, of which only the size behind it says so; ``sized``: those in
    use (or the last) of the lengths that were looked for; ``large``: those that are at least as
    long as was asked; ``fenced``: a fence post stands behind.
    """

    first: int
    end: int
    count: int
    last: int
    free_starts: list[int]
    free_ends: list[int]
    sized: list[int]
    large: list[int]
    fenced: bool


def follow_chunks(
    words: Sequence[int],
    first: int,
    stop: int,
    *,
    most: int,
    lengths: Container[int],
    large: int,
    fence: bool,
) -> ChunkRun:
    """Follow the chunks from word ``first`` to ``stop``, as far as their sizes are within
    ``words``, and no more than ``most``. Raises BrokenChunk where one does not follow another.

    ``lengths``: of the chunks to look for; ``large``: the length from which on chunks are listed,
    free ones left out as in ``lengths``; ``fence``: whether a fence post may stand before
    ``stop``.
    """
    free_starts: list[int] = []
    free_ends: list[int] = []
    sized: list[int] = []
    long: list[int] = []
    at = last = first
    behind = min(stop, len(words) - 1)
    count, fenced = 0, False
    while at < behind and count < most:
        size = words[at + 1]
        length = size >> 3
        if length < _SHORTEST or length & 1 or length > stop - at:
            if fence and length <= _FENCE:
                fenced = True
                break
            raise BrokenChunk(at, length << 3)
        if not size & 1 and count:
            free_starts.append(last)
            free_ends.append(at)
            if sized and sized[-1] == last:
                sized.pop()
            if long and long[-1] == last:
                long.pop()
        if length in lengths:
            sized.append(at)
        if length >= large:
            long.append(at)
        last = at
        at += length
        count += 1
    return ChunkRun(
        first=first,
        end=at,
        count=count,
        last=last,
        free_starts=free_starts,
        free_ends=free_ends,
        sized=sized,
        large=long,
        fenced=fenced,
    )


def sum_overlaps(
    starts: Sequence[int], ends: Sequence[int], gaps: Iterable[tuple[int, int]]
) -> int:
    """Return how much of ranges that follow one another by address lies in gaps that do so, too."""
    total = 0
    for gap_start, gap_end in gaps:
        at = max(0, bisect_right(starts, gap_start) - 1)
        while at < len(starts) and starts[at] < gap_end:
            total += max(0, min(ends[at], gap_end) - max(starts[at], gap_start))
            at += 1
    return total


def may_be_links(words: Sequence[int], first: int, count: int) -> bool:
    """Whether ``count`` words from ``first`` on may be the links of a thread's cache: multiples of
    16, and not all of them 0. True where they reach beyond ``words``, so cannot be judged.
    """
    if first < 0 or first + count > len(words):
        return True
    links = words[first : first + count]
    return not any(link & 15 for link in links) and any(links)
