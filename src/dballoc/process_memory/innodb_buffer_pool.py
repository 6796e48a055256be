"""Where InnoDB's buffer pool lies, by the pages in it: for mappings whose flags are not known (see
:mod:`dballoc.process_memory.address_space`).

The kernel makes one mapping of a pool and of what else was mapped next to it, unless their flags
differ. So mappings are looked at in many places, and the part that holds pages becomes a mapping of
its own. A page begins with a header of 38 bytes, at an address that is a multiple of its size
(fil0types.h, "FIL_PAGE_"): checksum, page number, previous, next, LSN (8 bytes), type (2 bytes),
flush LSN (8 bytes), tablespace; all of them big-endian.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dballoc.process_memory.pagemap_scan import Counts
from dballoc.process_memory.smaps import Mapping

# Multiples of all page sizes (innodb_page_size).
_PAGE = 64 << 10
_HEADER = struct.Struct(">IIIIQHQI")
HEADER = _HEADER.size

# Types of pages: undo log, inode, insert buffer, … (2 to 15, fil0fil.h), encrypted and instant
# ones, indexes.
_TYPES = {*range(2, 16), 37401, 17853, 17854, 17855}
# Bytes of redo log that no server has written.
_MOST_LSN = 1 << 56

# A mapping is looked at in so many places, or at every _PAGE.
_PLACES = 2048
# Others have copies of pages: the most of so many places decide.
_WINDOW = 17
# Each chunk of a pool begins with the descriptors of its pages, 2.3 % of it; of small chunks it may
# be a little more.
_DESCRIPTORS, _GAP = 0.035, 4 << 20
# What is smaller is more likely somebody's copies of pages (the doublewrite buffer).
_LEAST = 64 << 20

Head = Callable[[int], bytes]
Count = Callable[[int, int], Counts]


def split(mappings: Sequence[Mapping], head: Head, count: Count, alone: bool) -> list[Mapping]:
    """The mappings, with each part that holds pages one of its own. ``head``: the first
    :data:`HEADER` bytes at an address, fewer if they are not in memory; ``count``: what is resident
    from one address to another; ``alone``: the server's pool is never in one mapping with others,
    as MariaDB's, whose flags differ: a mapping that holds pages is the pool's whole.
    """
    found: list[Mapping] = []
    for mapping in mappings:
        plain = mapping.flags is None and mapping.private and mapping.rss >= _LEAST
        pools = _pools(mapping, head) if plain else []
        if alone and pools:
            pools = [(mapping.start, mapping.end)]
        if not pools:
            found.append(mapping)
            continue
        edges = sorted({mapping.start, mapping.end, *(edge for pool in pools for edge in pool)})
        found += [
            _part(mapping, start, end, (start, end) in pools, count)
            for start, end in pairwise(edges)
        ]
    return found


def _pools(mapping: Mapping, head: Head) -> list[tuple[int, int]]:
    """Start and end of each part of a mapping that holds pages."""
    step = -(-mapping.size // _PLACES // _PAGE) * _PAGE or _PAGE
    begin = -(-mapping.start // _PAGE) * _PAGE
    # What is not in memory may be anybody's.
    seen = [(at, header) for at in range(begin, mapping.end - HEADER, step) if (header := head(at))]
    if len(seen) < _WINDOW:
        return []
    window, pages = np.ones(_WINDOW), [is_page(header) for _, header in seen]
    inside = np.convolve(pages, window, "same") * 2 > np.convolve(
        np.ones(len(seen)), window, "same"
    )
    runs: list[list[int]] = []
    for first, stop in (
        np.flatnonzero(np.diff(inside, prepend=False, append=False)).reshape(-1, 2).tolist()
    ):
        if runs and first - runs[-1][1] <= _before(stop - first, step):
            runs[-1][1] = stop
        else:
            runs.append([first, stop])
    found = [
        (
            mapping.start if first <= _before(stop - first, step) else seen[first][0],
            mapping.end
            if (len(seen) - stop) * step <= _GAP
            else min(seen[stop - 1][0] + step, mapping.end),
        )
        for first, stop in runs
    ]
    return [(start, end) for start, end in found if end - start >= _LEAST]


def _before(pages: int, step: int) -> float:
    """Of how many places before so many with pages the descriptors may be."""
    return max(_GAP / step, _DESCRIPTORS * pages)


def _part(mapping: Mapping, start: int, end: int, innodb: bool, count: Count) -> Mapping:
    mine = count(start, end)
    return replace(
        mapping,
        start=start,
        end=end,
        rss=mine.resident,
        huge=mine.huge,
        swap=mine.swap,
        innodb=innodb,
    )


def is_page(header: bytes) -> bool:
    """Whether it may be the header of a page that the server has used."""
    if len(header) < HEADER:
        return False
    _, number, _, _, lsn, kind, _, _ = _HEADER.unpack_from(header)
    # A page that was made and never written has no LSN yet; one of zeros has no type.
    return kind in _TYPES and lsn < _MOST_LSN and number < 0xFFFFFFFF
