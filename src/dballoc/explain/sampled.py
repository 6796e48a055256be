"""The tier of the heap probe: how much of the heap is alive under any malloc, and whose it is that no instrument counts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from dballoc.catalogue import counted, wrappers
from dballoc.errors import Failure, UsageError
from dballoc.profile import heap, names, probe
from dballoc.profile.heap import Estimate, Row
from dballoc.profile.model import Frame
from dballoc.profile.series import Watch

# Functions that are named, and how many standard errors one must be above nothing.
_MOST, _SURE = 8, 2
# Larger blocks are told by their sizes (glibc maps them by themselves): performance_schema's arrays above all.
_SMALL = 128 << 10


@dataclass(frozen=True)
class Sampled:
    """``live``: all that is alive; ``uncounted``: by function, small blocks that no instrument counts, the most first.
    ``interval`` of the sampling, bytes.
    """

    live: Estimate
    uncounted: list[Row]
    interval: int

    @property
    def source(self) -> str:
        """For a ledger's lines."""
        return f"heap probe, {self.live.samples:,} samples, ± {self.live.error / 2**20:.1f} MiB"

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Functions and bytes, of those that are no accident."""
        sure = [row for row in self.uncounted if row.live.bytes > _SURE * row.live.error]
        return tuple((row.name, round(row.live.bytes)) for row in sure[:_MOST])


def look(pid: int) -> Sampled | None:
    """What the probe in that process knows; None if it has none, or one that has not sampled from its start. Failure if it
    does not answer.
    """
    try:
        if "libdballoc_probe.so" not in Path(f"/proc/{pid}/maps").read_text():
            return None
        there = probe.of_process(pid)
    except (OSError, UsageError):
        return None
    watch = _watch(pid, _started(pid), there.socket)
    snapshot, _ = watch.take()
    if not snapshot.interval or not snapshot.blocks:
        return None
    hidden = [b for b in snapshot.blocks if b.usable < _SMALL and not is_counted(watch.stacks[b.stack])]
    owner = {b.stack: heap.dominant(watch.stacks[b.stack], wrappers()) for b in hidden}
    rows = heap.by_owner(hidden, lambda b: _label(owner[b.stack]))
    return Sampled(heap.whole(snapshot.blocks), rows, snapshot.interval)


def is_counted(stack: Iterable[Frame]) -> bool:
    """Whether an allocation goes through a function that performance_schema's instruments count."""
    patterns = counted()
    return any(fnmatchcase(names.short(frame.function), pattern) for frame in stack for pattern in patterns)


def _label(frame: Frame) -> str:
    return f"{names.short(frame.function) if frame.named else frame.function} ({frame.module})"


@lru_cache(maxsize=4)
def _watch(pid: int, started: str, socket: Path) -> Watch:
    """Of one process: its functions are looked up once, however often it is looked at."""
    del started
    return Watch(probe.Probe(pid, socket), "server")


def _started(pid: int) -> str:
    """When the process began, clock ticks since boot (proc_pid_stat(5), starttime)."""
    try:
        return re.sub(r".*\)", "", Path(f"/proc/{pid}/stat").read_text()).split()[19]
    except OSError:
        raise Failure(f"process {pid}: it has ended meanwhile") from None
