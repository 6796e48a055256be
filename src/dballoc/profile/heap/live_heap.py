"""A server's live heap as its heap probe estimates it: how many bytes, under any malloc, and which
functions hold what no performance_schema instrument counts.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from dballoc.catalogue import counted, wrappers
from dballoc.host.process.handle import Process
from dballoc.process.heaps.heap_probe_estimate import ProbeEstimate
from dballoc.profile.heap import heap_profile, probe_client
from dballoc.profile.heap.snapshot_series import ProbedProcess
from dballoc.profile.model import Frame
from dballoc.profile.symbols import cpp_names

# Functions that are listed at most, and how many standard errors above zero each must be.
_MAX_FUNCTIONS, _STANDARD_ERRORS = 8, 2
# Blocks from this size on explain recognises by their size (glibc maps each on its own); most are
# performance_schema's arrays.
_LARGE_BLOCK = 128 << 10


class ProbedHeapReader:
    """Reads the probe of one process repeatedly; each call stack is resolved once."""

    def __init__(self, process: Process) -> None:
        """Connect to the probe. Raises UsageError if the process has none, or we may not ask it."""
        self._probe = probe_client.find_probe_of_process(process)
        self._watch = ProbedProcess(self._probe, "server")

    def look(self) -> ProbeEstimate | None:
        """Return the estimate of the live heap; None if the probe did not sample from the process's
        start, or has stopped sampling. (That it was stopped in between cannot be seen.) Failure if
        it does not answer.
        """
        if not self._probe.loaded_with:
            return None
        snapshot = self._probe.snapshot()
        if not snapshot.interval or not snapshot.blocks:
            return None
        self._watch.resolve(snapshot)
        stacks = {
            b.stack: self._watch.stacks[b.stack] for b in snapshot.blocks if b.usable < _LARGE_BLOCK
        }
        dominant_frames = {
            n: heap_profile.find_dominant_frame(stack, wrappers())
            for n, stack in stacks.items()
            if not is_counted(stack)
        }
        uncounted_blocks = [
            b for b in snapshot.blocks if b.usable < _LARGE_BLOCK and b.stack in dominant_frames
        ]
        rows = heap_profile.rank_owners(
            uncounted_blocks,
            lambda b: _name_holder(dominant_frames[b.stack]),
        )
        significant_rows = [
            row for row in rows if row.live.bytes > _STANDARD_ERRORS * row.live.error
        ]
        live = heap_profile.sum_blocks(snapshot.blocks)
        parts = tuple(
            (row.name, round(row.live.bytes)) for row in significant_rows[:_MAX_FUNCTIONS]
        )
        return ProbeEstimate(round(live.bytes), live.error, live.samples, parts)


def _name_holder(frame: Frame) -> str:
    return f"{heap_profile.format_function(frame)} ({frame.module})"


def is_counted(stack: Iterable[Frame]) -> bool:
    """Whether an allocation went through a function that performance_schema's instruments count."""
    patterns = counted()
    return any(
        fnmatchcase(label, p)
        for label in {cpp_names.shorten_name(frame.function) for frame in stack}
        for p in patterns
    )
