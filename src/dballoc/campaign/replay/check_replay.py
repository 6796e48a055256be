"""Check that a replay did what the trace says: every thread's calls, and the live bytes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.figures.live_curve import LiveCurve, compute_live_curve, sample_curve
from dballoc.trace.figures.thread_totals import ThreadTotals, compute_thread_totals
from dballoc.trace.model import Trace
from dballoc.trace.replay.replay_result import ReplayFigures

# Points of the live curve that are kept to check replays by.
_POINTS = 2_000_000


@dataclass(frozen=True, kw_only=True)
class ExpectedReplay:
    """What a replay of a trace has to do. ``curve``: None where it is too long to be kept."""

    totals: Sequence[ThreadTotals]
    curve: LiveCurve | None


def expect_replay(trace: Trace) -> ExpectedReplay:
    """Return what replays of a trace have to do. A replayed realloc frees and allocates at once,
    when the block that it returned was there.
    """
    at_once = tuple(replace(thread, time=thread.completed) for thread in trace.threads)
    curve = compute_live_curve(replace(trace, threads=at_once))
    return ExpectedReplay(
        totals=compute_thread_totals(trace), curve=curve if len(curve.time) <= _POINTS else None
    )


def find_difference(figures: ReplayFigures, expected: ExpectedReplay) -> str | None:
    """Return in what a replay differs from its trace, in words; None if in nothing. Where
    allocations failed, the bytes differ for that reason, which is told elsewhere.
    """
    if len(figures.threads) != len(expected.totals):
        return f"{len(figures.threads)} threads were replayed instead of {len(expected.totals)}"
    for number, (thread, total) in enumerate(zip(figures.threads, expected.totals, strict=True)):
        if thread.calls != total.calls:
            return f"thread {number}: the calls {thread.calls} instead of {total.calls}"
        if thread.live != total.live and not figures.failed:
            return f"thread {number}: {thread.live} live bytes instead of {total.live}"
    if expected.curve is None or figures.failed or not figures.live_curve:
        return None
    ends = np.array(figures.live_curve, np.int64)
    return _compare_live(ends[:, 0], ends[:, 1], expected.curve)


def _compare_live(
    times: NDArray[np.int64], replayed: NDArray[np.int64], curve: LiveCurve
) -> str | None:
    """Return the first of the epochs' ends at which other bytes are alive than in the trace."""
    recorded = sample_curve(curve, times - 1)
    if (differing := np.flatnonzero(recorded != replayed)).size:
        first = int(differing[0])
        return (
            f"{replayed[first]} live bytes at {times[first] / 1e9:.3f} s of the trace instead of "
            f"{recorded[first]}"
        )
    return None
