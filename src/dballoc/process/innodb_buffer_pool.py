"""Where InnoDB's buffer pool lies, found by the pages in it: for mappings whose flags are not known
(see :mod:`dballoc.process.smaps`).

The kernel makes one mapping of a pool and of what else was mapped next to it, unless their flags
differ. So each mapping is sampled in many places, and the part that holds InnoDB's pages becomes a
mapping of its own. A page begins with a header of 38 bytes, at an address that is a multiple of its
size (fil0types.h, "FIL_PAGE_"): checksum, page number, previous, next, LSN (8 bytes), type (2
bytes), flush LSN (8 bytes), tablespace; all of them big-endian.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from dballoc.process.pagemap_scan import PageCounts
from dballoc.process.smaps import MemoryMapping

# Multiples of all page sizes (innodb_page_size).
_PAGE = 64 << 10
_HEADER = struct.Struct(">IIIIQHQI")
HEADER_BYTES = _HEADER.size

# Types of pages: undo log, inode, insert buffer, … (2 to 15, fil0fil.h), encrypted and instant
# ones, indexes.
_TYPES = {*range(2, 16), 37401, 17853, 17854, 17855}
# More bytes of redo log than any server has written.
_MOST_LSN = 1 << 56

# A mapping is sampled in this many places, or at every _PAGE.
_PLACES = 2048
# Memory outside the pool has copies of pages, too: the majority of this many places decides.
_WINDOW = 17
# Each chunk of a pool begins with the descriptors of its pages: 2.3 % of it, of small chunks a
# little more.
_DESCRIPTORS, _GAP = 0.035, 4 << 20
# A smaller part is more likely to be copies of pages (the doublewrite buffer).
_LEAST = 64 << 20

ReadHeader = Callable[[int], bytes]
CountPages = Callable[[int, int], PageCounts]


def split_off_buffer_pool(
    mappings: Sequence[MemoryMapping], read_header: ReadHeader, count_pages: CountPages, alone: bool
) -> list[MemoryMapping]:
    """Return the mappings, with each part that holds InnoDB's pages as a mapping of its own.

    ``read_header`` returns the first :data:`HEADER_BYTES` at an address, fewer if they are not in
    memory; ``count_pages`` counts what is resident from one address to another; ``alone``: the
    server's pool never shares a mapping (MariaDB's, as its flags differ), so that a mapping with
    pages in it is the pool from end to end.
    """
    parts: list[MemoryMapping] = []
    for mapping in mappings:
        is_candidate = mapping.flags is None and mapping.private and mapping.rss >= _LEAST
        pools = _find_pools(mapping, read_header) if is_candidate else []
        if alone and pools:
            pools = [(mapping.start, mapping.end)]
        if not pools:
            parts.append(mapping)
            continue
        edges = sorted({mapping.start, mapping.end, *(edge for pool in pools for edge in pool)})
        parts += [
            _cut_part(mapping, start, end, (start, end) in pools, count_pages)
            for start, end in pairwise(edges)
        ]
    return parts


def _find_pools(mapping: MemoryMapping, read_header: ReadHeader) -> list[tuple[int, int]]:
    """Return start and end of each part of a mapping that holds InnoDB's pages."""
    step = -(-mapping.size // _PLACES // _PAGE) * _PAGE or _PAGE
    begin = -(-mapping.start // _PAGE) * _PAGE
    # Places that are not in memory say nothing either way.
    samples = [
        (at, header)
        for at in range(begin, mapping.end - HEADER_BYTES, step)
        if (header := read_header(at))
    ]
    if len(samples) < _WINDOW:
        return []
    runs: list[list[int]] = []
    for first, stop in _find_majorities([is_page_header(header) for _, header in samples]):
        if runs and first - runs[-1][1] <= _count_descriptor_places(stop - first, step):
            runs[-1][1] = stop
        else:
            runs.append([first, stop])
    pools = [
        (
            mapping.start
            if first <= _count_descriptor_places(stop - first, step)
            else samples[first][0],
            mapping.end
            if (len(samples) - stop) * step <= _GAP
            else min(samples[stop - 1][0] + step, mapping.end),
        )
        for first, stop in runs
    ]
    return [(start, end) for start, end in pools if end - start >= _LEAST]


def _find_majorities(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield (first, behind) of each run of places with more flags set than not among the
    :data:`_WINDOW` places around it.
    """
    before = list(accumulate(flags, initial=0))
    edges = [
        (max(0, i - _WINDOW // 2), min(len(flags), i + _WINDOW // 2 + 1)) for i in range(len(flags))
    ]
    inside = bytes(2 * (before[end] - before[start]) > end - start for start, end in edges)
    yield from (match.span() for match in re.finditer(rb"\x01+", inside))


def _count_descriptor_places(pages: int, step: int) -> float:
    """Return in how many places the descriptors of pages may lie before that many places with
    pages.
    """
    return max(_GAP / step, _DESCRIPTORS * pages)


def _cut_part(
    mapping: MemoryMapping, start: int, end: int, innodb: bool, count_pages: CountPages
) -> MemoryMapping:
    counts = count_pages(start, end)
    return replace(
        mapping,
        start=start,
        end=end,
        rss=counts.resident,
        huge=counts.huge,
        swap=counts.swap,
        innodb=innodb,
    )


def is_page_header(header: bytes) -> bool:
    """Whether it may be the header of a page that the server has used."""
    if len(header) < HEADER_BYTES:
        return False
    _, number, _, _, lsn, kind, _, _ = _HEADER.unpack_from(header)
    # A page that was made and never written has no LSN yet; one of zeros has no type.
    return kind in _TYPES and lsn < _MOST_LSN and number < 0xFFFFFFFF
