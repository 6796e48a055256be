"""Marks: exact, expensive readings of a process's memory, taken between steps and never under
load.
"""

import time
from dataclasses import dataclass

from dballoc import readers
from dballoc.measure.process_sampler import ProcessGone


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A process's memory, in bytes. ``clock``: CLOCK_MONOTONIC; ``reserved``: address space
    without any permission; ``read_only``: readable, neither private writable nor executable, which
    /proc/PID/status leaves out of its sums.
    """

    clock: float
    rss: int
    pss: int
    anon_huge: int
    reserved: int
    read_only: int
    mappings: int


def take_mark(pid: int) -> Mark:
    """Take a mark of a running process. Gone if it has ended."""
    try:
        rollup = readers.text_of_process(f"/proc/{pid}/smaps_rollup")
        maps = readers.text_of_process(f"/proc/{pid}/maps", readers.MAPS)
    except OSError:
        raise ProcessGone from None
    sizes = {
        line.split(":")[0]: int(line.split()[1]) * 1024
        for line in rollup.splitlines()
        if line.endswith(" kB")
    }
    reserved, read_only, count = sum_mappings(maps)
    return Mark(
        clock=time.monotonic(),
        rss=sizes.get("Rss", 0),
        pss=sizes.get("Pss", 0),
        anon_huge=sizes.get("AnonHugePages", 0),
        reserved=reserved,
        read_only=read_only,
        mappings=count,
    )


def sum_mappings(maps: str) -> tuple[int, int, int]:
    """Return (reserved bytes, read-only bytes, number of mappings) of a /proc/PID/maps text."""
    reserved = read_only = count = 0
    for line in readers.rows(maps):
        span, permissions = line.split(maxsplit=2)[:2]
        start, end = (int(x, 16) for x in span.split("-"))
        count += 1
        if permissions.startswith("---"):
            reserved += end - start
        elif permissions[2] != "x" and permissions[1:4:2] != "wp":
            read_only += end - start
    return reserved, read_only, count


def compute_reserved_bytes(vsz: int, accessible: int, mark: Mark) -> int:
    """Return the reserved bytes at a sample between two marks: what is neither accessible nor
    read-only in the mark before it.
    """
    return max(0, vsz - accessible - mark.read_only)
