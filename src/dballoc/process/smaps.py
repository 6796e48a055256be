"""A process's mappings, as /proc/PID/smaps shows them (proc_pid_smaps(5))."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from dballoc.host.process.handle import Process
from dballoc.host.process.maps import MapsLine, parse_line
from dballoc.process import pagemap_scan
from dballoc.process.pagemap_scan import PageCounts
from dballoc.process.read_limits import MOST, ReadBudget, Work

_DIGITS = frozenset(bytes([digit]) for digit in b"0123456789abcdef")
_SIZES = (
    b"Rss:",
    b"LazyFree:",
    b"Swap:",
    b"AnonHugePages:",
    b"Private_Hugetlb:",
    b"Shared_Hugetlb:",
    b"Shared_Dirty:",
    b"Private_Dirty:",
    b"Anonymous:",
)
_FLAGS = b"VmFlags:"
_KILOBYTES = re.compile(rb"\s*([0-9]{1,15}) kB")
_FIELDS = (*_SIZES, _FLAGS)
_BEGINNINGS = frozenset(field[:4] for field in _FIELDS)
# Bytes of text that are held in memory at a time.
_TOGETHER = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMapping(MapsLine):
    """One mapping. Sizes in bytes; ``lazy``: lazily freed (MADV_FREE); ``huge``: in transparent
    huge pages; ``flags``: two letters each, as in VmFlags, None where they are not known;
    ``dirty``: changed since the file was written, its private copies (``anonymous``) included;
    ``behind``: known to be no part of the file that is mapped before it; ``innodb``: it holds
    InnoDB's pages.
    """

    rss: int
    lazy: int
    swap: int
    huge: int
    hugetlb: int
    flags: frozenset[str] | None
    behind: bool = False
    innodb: bool = False
    dirty: int = 0
    anonymous: int = 0

    @property
    def file(self) -> bool:
        """Whether a file in a file system backs it."""
        return (
            self.inode != 0
            and self.path.startswith("/")
            and not self.path.startswith(("/dev/zero", "/memfd:", "/SYSV"))
        )

    @property
    def private(self) -> bool:
        """Whether it is anonymous, writable and private, as heaps, stacks and pools are."""
        return (
            not self.inode
            and self.permissions.startswith("rw")
            and self.permissions.endswith("p")
            and not self.special
        )

    @property
    def special(self) -> bool:
        """Whether the kernel names it by its use, as ``[vdso]`` or ``[stack]``."""
        return self.path.startswith(("[v", "[stack", "[uprobes"))

    @property
    def guard(self) -> bool:
        """Whether no access to it is allowed."""
        return self.permissions.startswith("---")


def read_smaps(process: Process, budget: ReadBudget | None = None) -> list[MemoryMapping]:
    """Read a process's mappings by address, as many as one snapshot may read. Raises OSError if the
    process is gone or not ours.
    """
    return read_mapping_file(f"{process.home}/smaps", budget or ReadBudget())


def read_mapping_file(path: str, budget: ReadBudget) -> list[MemoryMapping]:
    """Read the mappings in a process's smaps or maps; those of maps have no sizes. OSError."""
    with open(path, "rb") as file:
        return _parse_lines(_read_lines(file, budget), budget)


def parse_smaps(text: str) -> list[MemoryMapping]:
    """Parse the mappings of a smaps text."""
    return _parse_lines(text.encode().split(b"\n"), ReadBudget())


def _read_lines(file: BinaryIO, budget: ReadBudget) -> Iterator[bytes]:
    while lines := file.readlines(_TOGETHER):
        yield from lines
        if file.tell() > MOST[Work.TEXT]:
            budget.note_limit(Work.TEXT)
            return


def _parse_lines(lines: Iterable[bytes], budget: ReadBudget) -> list[MemoryMapping]:
    mappings: list[MemoryMapping] = []
    head: MapsLine | None = None
    sizes: dict[bytes, int] = {}
    flags: frozenset[str] = frozenset()
    # The same few flags and paths come again and again: each is made once.
    flags_by_text: dict[bytes, frozenset[str]] = {}
    paths: dict[str, str] = {}
    for line in lines:
        if line[:1] in _DIGITS:
            if head:
                mappings.append(_make_mapping(head, sizes, flags, paths))
            head, sizes, flags = None, {}, frozenset()
            if budget.out_of_time:
                break
            if len(mappings) == MOST[Work.MAPPINGS]:
                budget.note_limit(Work.MAPPINGS)
                break
            head = parse_line(line.decode(errors="replace"))
        # Most lines are fields that nobody needs.
        elif line[:4] in _BEGINNINGS and line.startswith(_FIELDS):
            name, _, rest = line.partition(b":")
            if line.startswith(_FLAGS):
                flags = flags_by_text.get(rest) or flags_by_text.setdefault(
                    rest, frozenset(rest.decode(errors="replace").split())
                )
            elif (size := _KILOBYTES.match(rest)) and size[1] != b"0":
                sizes[name] = int(size[1]) * 1024
    if head:
        mappings.append(_make_mapping(head, sizes, flags, paths))
    return mappings


def _make_mapping(
    head: MapsLine, sizes: dict[bytes, int], flags: frozenset[str], paths: dict[str, str]
) -> MemoryMapping:
    return MemoryMapping(
        start=head.start,
        end=head.end,
        permissions=head.permissions,
        offset=head.offset,
        inode=head.inode,
        path=paths.setdefault(head.path, head.path),
        rss=sizes.get(b"Rss", 0),
        lazy=sizes.get(b"LazyFree", 0),
        swap=sizes.get(b"Swap", 0),
        huge=sizes.get(b"AnonHugePages", 0),
        hugetlb=sizes.get(b"Private_Hugetlb", 0) + sizes.get(b"Shared_Hugetlb", 0),
        flags=flags,
        dirty=sizes.get(b"Shared_Dirty", 0) + sizes.get(b"Private_Dirty", 0),
        anonymous=sizes.get(b"Anonymous", 0),
    )


# Bytes in small pages of one mapping, for which smaps takes less than 10 ms.
MOST_SMALL = 512 << 20

# A mapping of the kernel's own address space, which pagemap does not cover.
_BEYOND = "[vsyscall]"
_SIZE = re.compile(r"[0-9]{1,15} kB")


def read_mappings(process: Process, budget: ReadBudget | None = None) -> list[MemoryMapping]:
    """Return the mappings of a process by address, as many as one snapshot may read.

    They come from smaps, unless a mapping has more than :data:`MOST_SMALL` bytes in small pages
    and the kernel (Linux 6.7 or later) has PAGEMAP_SCAN. Raises OSError if the process is gone or
    not ours.

    A read of smaps walks the page table of a whole mapping while it holds the process's mmap
    lock: 4 to 17 ms for each GiB in small pages, 0.4 to 1.6 s for a buffer pool of 100 GB.
    Nobody can map or unmap memory meanwhile. So a process with a mapping that smaps cannot read
    in a few milliseconds is read by PAGEMAP_SCAN instead, in small steps. That gives all that
    the ledger needs except for two things: the flags (what they say is found otherwise, see
    :mod:`dballoc.process.innodb_buffer_pool` and
    :mod:`dballoc.process.mapping_kind`) and which pages are lazily freed.
    """
    budget = budget or ReadBudget()
    return _scan_mappings(process, budget) or read_smaps(process, budget)


def _scan_mappings(process: Process, budget: ReadBudget) -> list[MemoryMapping]:
    """Return the mappings as PAGEMAP_SCAN sees them; none where smaps is fast enough, or the only
    way.
    """
    sizes = read_status_sizes(process)
    # hugetlb pages are no part of RSS, and only smaps tells them from others.
    if sizes.get("VmRSS", 0) <= MOST_SMALL or sizes.get("HugetlbPages"):
        return []
    mappings = read_mapping_file(f"{process.home}/maps", budget)
    pagemap = os.open(process.home / "pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        counts = {
            m.start: pagemap_scan.count_pages(pagemap, m.start, m.end)
            for m in mappings
            if m.size > MOST_SMALL and not budget.out_of_time
        }
        if all(c.resident - c.huge <= MOST_SMALL for c in counts.values()):
            return []
        return [
            _with_counts(m, counts.get(m.start) or _count_pages(pagemap, m, budget))
            for m in mappings
            if m.path != _BEYOND
        ]
    except OSError:
        return []
    finally:
        os.close(pagemap)


def _count_pages(pagemap: int, mapping: MemoryMapping, budget: ReadBudget) -> PageCounts:
    if budget.out_of_time:
        return PageCounts()
    return pagemap_scan.count_pages(pagemap, mapping.start, mapping.end)


def _with_counts(mapping: MemoryMapping, counts: PageCounts) -> MemoryMapping:
    return replace(mapping, rss=counts.resident, huge=counts.huge, swap=counts.swap, flags=None)


def read_status_sizes(process: Process) -> dict[str, int]:
    """Read the sizes in /proc/PID/status, in bytes. Raises OSError if the process is gone."""
    lines = process.read_status().items()
    return {name: int(rest.split()[0]) * 1024 for name, rest in lines if _SIZE.fullmatch(rest)}
