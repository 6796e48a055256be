"""A server's live heap by its heap probe: how much there is under any malloc, and whose it is that
no instrument counts.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from dballoc.catalogue import counted, wrappers
from dballoc.process_memory.heaps.heap_probe_estimate import Sampled
from dballoc.profile.heap import heap_profile, probe_client
from dballoc.profile.heap.snapshot_series import Watch
from dballoc.profile.model import Frame
from dballoc.profile.symbols import cpp_names

# Functions that are named, and how many standard errors one must be above nothing.
_MOST, _SURE = 8, 2
# Larger blocks are told by their sizes (glibc maps them by themselves): performance_schema's arrays
# above all.
_SMALL = 128 << 10


class Uncounted:
    """Asks the probe of one process, again and again; its functions are looked up once."""

    def __init__(self, pid: int) -> None:
        """UsageError if it has no probe, or that is not ours to ask."""
        self._watch = Watch(probe_client.of_process(pid), "server")

    def look(self) -> Sampled | None:
        """What it knows; None if it has not sampled from its start, or does not any more. (One that
        was stopped for a while in between says so to nobody.) Failure if it does not answer.
        """
        if not self._watch.probe.loaded_with:
            return None
        snapshot = self._watch.probe.snapshot()
        if not snapshot.interval or not snapshot.blocks:
            return None
        self._watch.resolve(snapshot)
        stacks = {
            b.stack: self._watch.stacks[b.stack] for b in snapshot.blocks if b.usable < _SMALL
        }
        owner = {
            n: heap_profile.dominant(stack, wrappers())
            for n, stack in stacks.items()
            if not is_counted(stack)
        }
        hidden = [b for b in snapshot.blocks if b.usable < _SMALL and b.stack in owner]
        rows = heap_profile.by_owner(
            hidden, lambda b: f"{heap_profile.label(owner[b.stack])} ({owner[b.stack].module})"
        )
        sure = [row for row in rows if row.live.bytes > _SURE * row.live.error]
        live = heap_profile.whole(snapshot.blocks)
        parts = tuple((row.name, round(row.live.bytes)) for row in sure[:_MOST])
        return Sampled(round(live.bytes), live.error, live.samples, parts)


def is_counted(stack: Iterable[Frame]) -> bool:
    """Whether an allocation goes through a function that performance_schema's instruments count."""
    patterns = counted()
    return any(
        fnmatchcase(label, p)
        for label in {cpp_names.short(frame.function) for frame in stack}
        for p in patterns
    )
