"""A server's live heap by its heap probe: how much there is under any malloc, and whose it is that no instrument counts."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from dballoc.catalogue import counted, wrappers
from dballoc.explain.sampled import Sampled
from dballoc.profile import heap, names, probe
from dballoc.profile.model import Frame
from dballoc.profile.series import Watch

# Functions that are named, and how many standard errors one must be above nothing.
_MOST, _SURE = 8, 2
# Larger blocks are told by their sizes (glibc maps them by themselves): performance_schema's arrays above all.
_SMALL = 128 << 10


class Uncounted:
    """Asks the probe of one process, again and again; its functions are looked up once."""

    def __init__(self, pid: int) -> None:
        """UsageError if it has no probe, or that is not ours to ask."""
        self._watch = Watch(probe.of_process(pid), "server")

    def look(self) -> Sampled | None:
        """What it knows; None if it has not sampled from its start, or does not any more. (One that was stopped for a while in
        between says so to nobody.) Failure if it does not answer.
        """
        if not self._watch.probe.loaded_with:
            return None
        snapshot = self._watch.probe.snapshot()
        if not snapshot.interval or not snapshot.blocks:
            return None
        self._watch.resolve(snapshot)
        stacks = {b.stack: self._watch.stacks[b.stack] for b in snapshot.blocks if b.usable < _SMALL}
        owner = {n: heap.dominant(stack, wrappers()) for n, stack in stacks.items() if not is_counted(stack)}
        hidden = [b for b in snapshot.blocks if b.usable < _SMALL and b.stack in owner]
        rows = heap.by_owner(hidden, lambda b: f"{heap.label(owner[b.stack])} ({owner[b.stack].module})")
        sure = [row for row in rows if row.live.bytes > _SURE * row.live.error]
        live = heap.whole(snapshot.blocks)
        parts = tuple((row.name, round(row.live.bytes)) for row in sure[:_MOST])
        return Sampled(round(live.bytes), live.error, live.samples, parts)


def is_counted(stack: Iterable[Frame]) -> bool:
    """Whether an allocation goes through a function that performance_schema's instruments count."""
    patterns = counted()
    return any(fnmatchcase(label, p) for label in {names.short(frame.function) for frame in stack} for p in patterns)
