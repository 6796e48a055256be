"""Where the data of an executable or a library ends.

Its zero-initialised data (.bss) is anonymous memory right behind the file's mapping. The kernel
merges it with whatever else was mapped next to it; the file's program headers say where it ends
(System V ABI, "Program Header").
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from dballoc.process.memory_reader import PAGE
from dballoc.process.smaps import MemoryMapping

_PT_LOAD = 1
# Bytes to read of a file: linkers put the program headers right behind the file's header.
HEADER_BYTES = 4096

ReadHeader = Callable[[str], bytes]
CountResident = Callable[[int, int], int]


def split_off_bss(
    mappings: Sequence[MemoryMapping], read_header: ReadHeader, count_resident: CountResident
) -> list[MemoryMapping]:
    """Return the mappings, with what follows a .bss as a mapping of its own.

    ``read_header`` returns the first :data:`HEADER_BYTES` of a file or raises OSError;
    ``count_resident`` returns the bytes in memory from one address to another.
    """
    parts: list[MemoryMapping] = []
    bases: dict[str, int] = {}
    before: MemoryMapping | None = None
    for mapping in mappings:
        if mapping.file and mapping.offset == 0:
            bases[mapping.path] = mapping.start
        if (
            before
            and before.file
            and before.end == mapping.start
            and mapping.private
            and not mapping.path
        ):
            end = _find_end(before.path, bases, read_header)
            if end is not None and mapping.start <= end < mapping.end:
                rss = min(mapping.rss, count_resident(mapping.start, end))
                if end > mapping.start:
                    parts.append(
                        replace(mapping, end=end, rss=rss, lazy=0, swap=0, huge=0, hugetlb=0)
                    )
                mapping = replace(mapping, start=end, rss=mapping.rss - rss, behind=True)
        parts.append(mapping)
        before = mapping
    return parts


def _find_end(path: str, bases: dict[str, int], read_header: ReadHeader) -> int | None:
    """Return the address of the page behind the data of a loaded file; None if that cannot be
    known.
    """
    try:
        segments = list_load_segments(read_header(path))
    except OSError:
        return None
    if not segments or path not in bases:
        return None
    end = bases[path] - _find_first_page(segments) + max(end for _, end in segments)
    return -(-end // PAGE) * PAGE


def _find_first_page(segments: Sequence[tuple[int, int]]) -> int:
    """Return the virtual address at which the first of these :func:`list_load_segments` is mapped,
    rounded down to a page.
    """
    return min(start for start, _ in segments) // PAGE * PAGE


def list_load_segments(header: bytes) -> list[tuple[int, int]]:
    """Return the virtual addresses (start, end) of each loaded segment of a 64-bit ELF file; none
    of any other file. Pure.
    """
    if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
        return []
    (table,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    segments = []
    for at in range(table, table + size * count, size or 1):
        if at + 56 > len(header):
            return []
        kind, _, _, address, _, _, memory, _ = struct.unpack_from("<IIQQQQQQ", header, at)
        if kind == _PT_LOAD:
            segments.append((address, address + memory))
    return segments
