"""Where the data of an executable or a library end. What it has beyond its file (.bss) is anonymous
memory right behind the file's mapping, and the kernel makes one mapping of it and of what somebody
else has mapped next to it: the file's own program headers tell them apart (System V ABI, "Program
Header").
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from dballoc.process_memory.memory_reader import PAGE
from dballoc.process_memory.smaps import Mapping

_PT_LOAD = 1
# Program headers follow the file's header in all that linkers make.
HEAD = 4096

Read = Callable[[str], bytes]
Resident = Callable[[int, int], int]


def split(mappings: Sequence[Mapping], read: Read, resident: Resident) -> list[Mapping]:
    """The mappings, with what follows a .bss one of its own. ``read``: a file's first :data:`HEAD`
    bytes, OSError as it comes; ``resident``: bytes in memory from one address to another.
    """
    found: list[Mapping] = []
    bases: dict[str, int] = {}
    before: Mapping | None = None
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
            end = _end(before.path, bases, read)
            if end is not None and mapping.start <= end < mapping.end:
                rss = min(mapping.rss, resident(mapping.start, end))
                if end > mapping.start:
                    found.append(
                        replace(mapping, end=end, rss=rss, lazy=0, swap=0, huge=0, hugetlb=0)
                    )
                mapping = replace(mapping, start=end, rss=mapping.rss - rss, behind=True)
        found.append(mapping)
        before = mapping
    return found


def _end(path: str, bases: dict[str, int], read: Read) -> int | None:
    """The page behind the last address of a file that is loaded; None where that cannot be
    known.
    """
    try:
        loads = segments(read(path))
    except OSError:
        return None
    if not loads or path not in bases:
        return None
    return -(-(bases[path] - first_page(loads) + max(end for _, end in loads)) // PAGE) * PAGE


def first_page(loads: Sequence[tuple[int, int]]) -> int:
    """The address, as the file itself counts, of what is mapped first of these :func:`segments`."""
    return min(start for start, _ in loads) // PAGE * PAGE


def segments(head: bytes) -> list[tuple[int, int]]:
    """(first, behind the last) virtual address of what an ELF file of 64 bits has loaded; none of
    anything else. Pure.
    """
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return []
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    found = []
    for at in range(table, table + size * count, size or 1):
        if at + 56 > len(head):
            return []
        kind, _, _, address, _, _, memory, _ = struct.unpack_from("<IIQQQQQQ", head, at)
        if kind == _PT_LOAD:
            found.append((address, address + memory))
    return found
