"""A process's mappings, read without blocking the process for long.

A read of smaps walks the page table of a whole mapping while it holds the process's mmap lock: 4 to
17 ms for each GiB in small pages, 0.4 to 1.6 s for a buffer pool of 100 GB. Nobody can map or unmap
memory meanwhile. So a process with a mapping that smaps cannot read in a few milliseconds is read
by PAGEMAP_SCAN instead, in small steps. That gives all that the ledger needs except for two things:
the flags (what they say is found otherwise, see :mod:`dballoc.process_memory.innodb_buffer_pool`
and :mod:`dballoc.process_memory.mapping_kind`) and which pages are lazily freed.
"""

import os
import re
from dataclasses import replace

from dballoc.host.process_handle import Process
from dballoc.process_memory import pagemap_scan, smaps
from dballoc.process_memory.pagemap_scan import PageCounts
from dballoc.process_memory.read_limits import ReadBudget
from dballoc.process_memory.smaps import Mapping

# Bytes in small pages of one mapping, for which smaps takes less than 10 ms.
MOST = 512 << 20

# A mapping of the kernel's own address space, which pagemap does not cover.
_BEYOND = "[vsyscall]"
_SIZE = re.compile(r"[0-9]{1,15} kB")


def read_mappings(process: Process, budget: ReadBudget | None = None) -> list[Mapping]:
    """Return the mappings of a process by address, as many as one snapshot may read.

    They come from smaps, unless a mapping has more than :data:`MOST` bytes in small pages and the
    kernel (Linux 6.7 or later) has PAGEMAP_SCAN. OSError if the process is gone or not ours.
    """
    budget = budget or ReadBudget()
    return _scan_mappings(process, budget) or smaps.read_smaps(process, budget)


def _scan_mappings(process: Process, budget: ReadBudget) -> list[Mapping]:
    """Return the mappings as PAGEMAP_SCAN sees them; none where smaps is fast enough, or the only
    way.
    """
    sizes = read_status_sizes(process)
    # hugetlb pages are no part of RSS, and only smaps tells them from others.
    if sizes.get("VmRSS", 0) <= MOST or sizes.get("HugetlbPages"):
        return []
    mappings = smaps.read_mapping_file(f"{process.home}/maps", budget)
    pagemap = os.open(process.home / "pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        counts = {
            m.start: pagemap_scan.count_pages(pagemap, m.start, m.end)
            for m in mappings
            if m.size > MOST and not budget.out_of_time
        }
        if all(c.resident - c.huge <= MOST for c in counts.values()):
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


def _count_pages(pagemap: int, mapping: Mapping, budget: ReadBudget) -> PageCounts:
    if budget.out_of_time:
        return PageCounts()
    return pagemap_scan.count_pages(pagemap, mapping.start, mapping.end)


def _with_counts(mapping: Mapping, counts: PageCounts) -> Mapping:
    return replace(mapping, rss=counts.resident, huge=counts.huge, swap=counts.swap, flags=None)


def read_status_sizes(process: Process) -> dict[str, int]:
    """Read the sizes in /proc/PID/status, in bytes. OSError if the process is gone."""
    lines = process.read_status().items()
    return {name: int(rest.split()[0]) * 1024 for name, rest in lines if _SIZE.fullmatch(rest)}
