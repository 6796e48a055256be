"""How much is alive over time, exactly. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE, Trace
from dballoc.trace.trace_file.check_trace import find_births

# The end of an object that is never freed.
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class LiveCurve:
    """What is alive after all events up to and at each time at which there are any.

    ``time`` in ns, ``bytes`` as asked for, ``blocks``. ``most_bytes`` are alive at some moment of
    each time, ``peak_bytes``, the most of them, first at ``peak_time``. Of the events of one time
    the frees count first, as blocks are matched (docs/trace-format.md), then the allocations, then
    the frees of blocks that were allocated at that very time. So what is freed and taken again
    within the trace's resolution does not count twice.
    """

    time: NDArray[np.int64]
    bytes: NDArray[np.int64]
    most_bytes: NDArray[np.int64]
    blocks: NDArray[np.int64]
    peak_bytes: int
    peak_time: int


def find_deaths(trace: Trace) -> NDArray[np.int64]:
    """Return when each object is freed, in ns; NEVER if it is not."""
    deaths = np.full(len(trace.objects.size), NEVER, np.int64)
    for thread in trace.threads:
        freeing = thread.freed != NONE
        deaths[thread.freed[freeing]] = thread.time[freeing]
    return deaths


@dataclass(frozen=True, kw_only=True)
class _Changes:
    """Births and deaths in their order: ``time`` in ns, ``object``, ``is_birth``."""

    time: NDArray[np.int64]
    object: NDArray[np.int64]
    is_birth: NDArray[np.bool_]

    def sum_sizes(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what is alive after each, where each object counts so much."""
        return np.cumsum(np.where(self.is_birth, 1, -1) * sizes[self.object])


def _order_changes(trace: Trace) -> _Changes:
    births = find_births(trace.threads, len(trace.objects.size))
    deaths = find_deaths(trace)
    freed = np.flatnonzero(deaths != NEVER)
    times = np.concatenate([births, deaths[freed]])
    # Of one time: frees of older blocks, allocations, frees of blocks that are as young.
    is_young = deaths[freed] == births[freed]
    rank = np.concatenate([np.ones(len(births), np.int8), np.where(is_young, 2, 0)])
    order = np.lexsort((rank, times))
    return _Changes(
        time=times[order],
        object=np.concatenate([np.arange(len(births)), freed])[order],
        is_birth=order < len(births),
    )


def compute_peaks(trace: Trace, *sizes: NDArray[np.int64]) -> list[int]:
    """Return the most that is alive at once, for each of these sizes of the trace's objects."""
    changes = _order_changes(trace)
    return [int(changes.sum_sizes(each).max(initial=0)) for each in sizes]


def compute_live_curve(trace: Trace) -> LiveCurve:
    """Return the live curve of a trace."""
    changes = _order_changes(trace)
    times = changes.time
    if not len(times):
        return LiveCurve(
            time=times, bytes=times, most_bytes=times, blocks=times, peak_bytes=0, peak_time=0
        )
    live = changes.sum_sizes(trace.objects.size.astype(np.int64))
    blocks = np.cumsum(np.where(changes.is_birth, 1, -1))
    peak = int(np.argmax(live))
    ends = np.append(times[1:] != times[:-1], True)
    first, last = np.flatnonzero(np.append(True, ends[:-1])), np.flatnonzero(ends)
    return LiveCurve(
        time=times[last],
        bytes=live[last],
        most_bytes=np.maximum.reduceat(live, first),
        blocks=blocks[last],
        peak_bytes=int(live[peak]),
        peak_time=int(times[peak]),
    )


def sample_curve(curve: LiveCurve, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes alive at these times, in ns."""
    places = np.searchsorted(curve.time, times, side="right")
    return np.concatenate([[0], curve.bytes])[places].astype(np.int64)


def find_highs(curve: LiveCurve, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each of ``columns`` equal stretches of time its end, in ns, and the most bytes
    that are alive in it: what a chart of that width shows without losing a peak.
    """
    end = int(curve.time[-1]) if len(curve.time) else 0
    edges = np.linspace(0, end + 1, columns + 1).astype(np.int64)
    places = np.searchsorted(curve.time, edges)
    carried = sample_curve(curve, edges[:-1])
    highs = [
        max(int(before), int(curve.most_bytes[first:last].max(initial=0)))
        for before, first, last in zip(carried, places[:-1], places[1:], strict=True)
    ]
    return edges[1:], np.array(highs, np.int64)
