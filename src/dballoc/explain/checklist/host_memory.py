"""Summarize the host's memory as pt-summary of the Percona Toolkit does.

Its figures (pt-summary, "OUTPUT") are those of free(1), whose manual says how they follow from
/proc/meminfo; virtual is what is used of memory and of swap; UsedRSS is the sum of the RSS of all
processes, in which shared pages count once for each of them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from dballoc import readers
from dballoc.explain.checklist import section
from dballoc.explain.checklist.section import Bytes, Cell, Section

TITLE = "host memory, as pt-summary shows it"
_PAGE = os.sysconf("SC_PAGE_SIZE")
# A machine has some thousand processes; more are not read.
_MOST_PROCESSES = 100_000


@dataclass(frozen=True)
class ProcessesMemory:
    """The sum of the RSS of ``count`` processes, bytes; ``complete``: whether these are all that
    there are.
    """

    rss: int
    count: int
    complete: bool = True


def sum_rss() -> ProcessesMemory:
    """Sum up the RSS of all processes that can be seen."""
    rss = count = 0
    complete = True
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit():
                continue
            if count == _MOST_PROCESSES:
                complete = False
                break
            try:
                rss += int(readers.text_of_process(f"/proc/{entry.name}/statm").split()[1]) * _PAGE
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            count += 1
    return ProcessesMemory(rss, count, complete)


def summarize_host_memory(meminfo: Mapping[str, Cell], processes: ProcessesMemory) -> Section:
    """Return the section. ``meminfo``: sizes of /proc/meminfo by name, in bytes. Pure."""

    def size(name: str) -> int:
        value = meminfo.get(name)
        return value if isinstance(value, int) else 0

    total, free = size("MemTotal"), size("MemFree")
    caches = size("Cached") + size("SReclaimable")
    # Before Linux 3.14 there is no MemAvailable; free(1) subtracted what follows.
    available = size("MemAvailable") or free + size("Buffers") + caches
    used, swap_used = max(0, total - available), max(0, size("SwapTotal") - size("SwapFree"))
    of = f"{processes.count:,} processes" + ("" if processes.complete else ", not all of them")
    return section.build_facts(
        TITLE,
        "/proc/meminfo, /proc/*/statm",
        [
            ("Total", Bytes(total)),
            ("Free", Bytes(free)),
            ("Used: physical (total less available)", Bytes(used)),
            ("Used: swap allocated", Bytes(size("SwapTotal"))),
            ("Used: swap used", Bytes(swap_used)),
            ("Used: virtual (physical and swap used)", Bytes(used + swap_used)),
            ("Shared", Bytes(size("Shmem"))),
            ("Buffers", Bytes(size("Buffers"))),
            ("Caches (page cache and reclaimable slabs)", Bytes(caches)),
            ("Dirty", Bytes(size("Dirty"))),
            (f"UsedRSS: RSS of {of}, shared pages in each", Bytes(processes.rss)),
        ],
    )
