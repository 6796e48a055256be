"""A process's mappings, read without stopping it for long.

A read of smaps walks the page table of a whole mapping under the process's mmap lock: 4 to 17 ms
for each GiB in small pages,
0.4 to 1.6 s for a buffer pool of 100 GB, and nobody can map or unmap memory meanwhile. A process
  with a mapping that cannot be read so in a few milliseconds is read by PAGEMAP_SCAN instead, in
  small steps. That tells all that the ledger needs but for two things: flags (what they tell is
  found otherwise, see :mod:`dballoc.process_memory.innodb_buffer_pool` and
  :mod:`dballoc.process_memory.mapping_kind`) and which pages are lazily freed.
"""

import os
import re
from dataclasses import replace

from dballoc import readers
from dballoc.process_memory import pagemap_scan, smaps
from dballoc.process_memory.pagemap_scan import Counts
from dballoc.process_memory.read_limits import Effort
from dballoc.process_memory.smaps import Mapping

# In small pages in one mapping, for which smaps takes less than 10 ms.
MOST = 512 << 20

# Of the kernel's own address space.
_BEYOND = "[vsyscall]"
_SIZE = re.compile(r"\s*[0-9]{1,15} kB")
_SIZE = re.compile(r"\s*[0-9]{1,15} kB")


def read(pid: int, effort: Effort | None = None) -> list[Mapping]:
    """All mappings, by address, as many as a look may read: by smaps unless one of them has more
    than :data:`MOST` bytes in small pages; by smaps even then before Linux 6.7, which knows no
    other way. OSError if the process is gone or not ours.
    """
    effort = effort or Effort()
    return _scanned(pid, effort) or smaps.read(pid, effort)


def _scanned(pid: int, effort: Effort) -> list[Mapping]:
    """Nothing if smaps will do, or must."""
    sizes = status(pid)
    # Pages of hugetlb are no part of RSS, and only smaps tells them from others.
    if sizes.get("VmRSS", 0) <= MOST or sizes.get("HugetlbPages"):
        return []
    found = smaps.of_file(f"/proc/{pid}/maps", effort)
    pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        counts = {
            m.start: pagemap_scan.count(pagemap, m.start, m.end)
            for m in found
            if m.size > MOST and not effort.over
        }
        if all(c.resident - c.huge <= MOST for c in counts.values()):
            return []
        return [
            _counted(m, counts.get(m.start) or _count(pagemap, m, effort))
            for m in found
            if m.path != _BEYOND
        ]
    except OSError:
        return []
    finally:
        os.close(pagemap)


def _count(pagemap: int, mapping: Mapping, effort: Effort) -> Counts:
    return Counts() if effort.over else pagemap_scan.count(pagemap, mapping.start, mapping.end)


def _counted(mapping: Mapping, counts: Counts) -> Mapping:
    return replace(mapping, rss=counts.resident, huge=counts.huge, swap=counts.swap, flags=None)


def status(pid: int) -> dict[str, int]:
    """The sizes in /proc/PID/status, in bytes. OSError if the process is gone."""
    lines = (
        line.partition(":") for line in readers.rows(readers.text_of_process(f"/proc/{pid}/status"))
    )
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in lines if _SIZE.fullmatch(rest)}
