"""Marks: exact, expensive readings of a process's memory, taken between steps and never under
load.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.host.process import maps as process_maps
from dballoc.host.process.handle import Process
from dballoc.host.process.maps import MapsLine
from dballoc.instruments.process_sampler import ProcessGone


@dataclass(frozen=True, kw_only=True)
class MemoryMark:
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


def take_mark(process: Process) -> MemoryMark:
    """Take a mark of a running process. Raises ProcessGone if it has ended."""
    try:
        rollup = process.read_text("smaps_rollup")
        maps = process_maps.read_maps(process)
    except OSError:
        raise ProcessGone from None
    sizes = {
        line.split(":")[0]: int(line.split()[1]) * 1024
        for line in rollup.splitlines()
        if line.endswith(" kB")
    }
    reserved, read_only = sum_mappings(maps)
    return MemoryMark(
        clock=time.monotonic(),
        rss=sizes.get("Rss", 0),
        pss=sizes.get("Pss", 0),
        anon_huge=sizes.get("AnonHugePages", 0),
        reserved=reserved,
        read_only=read_only,
        mappings=len(maps),
    )


def sum_mappings(maps: Sequence[MapsLine]) -> tuple[int, int]:
    """Return the reserved bytes and the read-only bytes."""
    reserved = read_only = 0
    for line in maps:
        if line.permissions.startswith("---"):
            reserved += line.size
        elif line.permissions[2] != "x" and line.permissions[1:4:2] != "wp":
            read_only += line.size
    return reserved, read_only


def compute_reserved_bytes(vsz: int, accessible: int, mark: MemoryMark) -> int:
    """Return the reserved bytes at a sample between two marks: what is neither accessible nor
    read-only in the mark before it.
    """
    return max(0, vsz - accessible - mark.read_only)
