"""Check that a replay did what the trace says: every thread's calls, and the live bytes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.figures.thread_totals import ThreadTotals, compute_thread_totals
from dballoc.trace.model import Trace
from dballoc.trace.replay.check_trace import find_allocated_objects
from dballoc.trace.replay.plan_file import ReplayPlan
from dballoc.trace.replay.replay_result import ReplayFigures


@dataclass(frozen=True, kw_only=True)
class ExpectedReplay:
    """What a replay of a trace has to do. ``live_curve``: pairs of ns of the trace and live bytes,
    at the moments at which the engine tells them.
    """

    totals: Sequence[ThreadTotals]
    live_curve: tuple[tuple[int, int], ...]


def expect_replay(trace: Trace, plan: ReplayPlan) -> ExpectedReplay:
    """Return what replays of a trace by its ``plan`` have to do. A replayed realloc frees and
    allocates at once, when the block that it returned was there.
    """
    ends = plan.list_stretch_ends()
    live = sum_live_bytes(trace, np.array(ends, np.int64)).tolist()
    return ExpectedReplay(
        totals=compute_thread_totals(trace), live_curve=tuple(zip(ends, live, strict=True))
    )


def find_difference(figures: ReplayFigures, expected: ExpectedReplay) -> str | None:
    """Return in words how a replay differs from its trace; None if it does not. Bytes that differ
    because allocations failed are reported elsewhere.
    """
    if len(figures.threads) != len(expected.totals):
        return f"{len(figures.threads)} threads were replayed instead of {len(expected.totals)}"
    for number, (thread, total) in enumerate(zip(figures.threads, expected.totals, strict=True)):
        if thread.calls != total.calls:
            return f"thread {number}: the calls {thread.calls} instead of {total.calls}"
        if thread.live != total.live and not figures.failed:
            return f"thread {number}: {thread.live} live bytes instead of {total.live}"
    if figures.failed:
        return None
    return _compare_live(figures.live_curve, expected.live_curve)


def sum_live_bytes(trace: Trace, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes that are alive just before each of these moments, in ns."""
    # The last item is for events without an object: NONE is -1.
    sizes = np.append(np.where(find_allocated_objects(trace), trace.objects.size, 0), 0)
    sizes = sizes.astype(np.int64)
    live = np.zeros(len(ends), np.int64)
    for thread in trace.threads:
        changes = sizes[thread.object] - sizes[thread.freed]
        reached = np.concatenate([[0], np.cumsum(changes)])
        live += reached[np.searchsorted(thread.completed, ends)]
    return live


def _compare_live(
    replayed: tuple[tuple[int, int], ...], recorded: tuple[tuple[int, int], ...]
) -> str | None:
    """Return the first moment at which the live bytes differ from the trace's."""
    if [time for time, _ in replayed] != [time for time, _ in recorded]:
        return f"live bytes at {len(replayed)} moments, which are not the trace's {len(recorded)}"
    for (time, live), (_, expected) in zip(replayed, recorded, strict=True):
        if live != expected:
            return f"{live} live bytes at {time / 1e9:.3f} s of the trace instead of {expected}"
    return None
