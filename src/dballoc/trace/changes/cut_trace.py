"""A stretch of a trace that can be replayed alone. Pure."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.changes.trace_parts import drop_idle_threads, find_freed_by, get_duration
from dballoc.trace.model import NONE, EventKind, Mark, ThreadEvents, Trace
from dballoc.trace.trace_file.check_trace import find_births
from dballoc.trace.trace_file.write_trace import number_by_thread


def cut_trace(trace: Trace, begin: int, end: int) -> Trace:
    """Return the events from ``begin`` up to ``end``, in ns, by when they were completed. What was
    alive at ``begin`` is allocated first, at time 0, by the threads that allocated it, in its
    order. A realloc that begins before the stretch and ends in it frees when the stretch begins.
    A thread without events goes, unless it created one that has some.
    """
    begin = begin // trace.compiled.resolution * trace.compiled.resolution
    births = find_births(trace.threads, len(trace.objects.size))
    slices = [
        slice(*np.searchsorted(thread.completed, [begin, end]).tolist()) for thread in trace.threads
    ]
    freed_before = np.zeros(len(births), bool)
    for thread, part in zip(trace.threads, slices, strict=True):
        gone = thread.freed[: part.start]
        freed_before[gone[gone != NONE]] = True
    alive = (births < begin) & ~freed_before
    kept = alive | ((births >= begin) & (births < end))
    threads = tuple(
        _cut_thread(trace, index, part, alive, (begin, end)) for index, part in enumerate(slices)
    )
    new = np.full(len(births) + 1, NONE, np.int64)  # the last: of NONE
    new[:-1][kept] = np.arange(int(np.count_nonzero(kept)))
    threads = tuple(
        replace(thread, object=new[thread.object], freed=new[thread.freed]) for thread in threads
    )
    stretch = f"cut from {begin / 1e9:,.6g} s to {end / 1e9:,.6g} s"
    cut = replace(
        trace,
        facts=replace(trace.facts, seconds=(end - begin) / 1e9),
        threads=threads,
        objects=find_freed_by(threads, trace.objects.select(kept)),
        marks=_cut_marks(trace, begin, end),
        compiled=replace(trace.compiled, history=(*trace.compiled.history, stretch)),
    )
    return number_by_thread(drop_idle_threads(cut))


def _cut_thread(
    trace: Trace, index: int, part: slice, alive: NDArray[np.bool_], stretch: tuple[int, int]
) -> ThreadEvents:
    begin, end = stretch
    thread = trace.threads[index]
    allocations = np.flatnonzero(thread.object[: part.start] != NONE)
    present = allocations[alive[thread.object[allocations]]]
    kinds = thread.kind[present].copy()
    population = thread.object[present]
    aligned = trace.objects.alignment[population] != 0
    kinds[kinds == EventKind.REALLOC] = np.where(
        aligned[kinds == EventKind.REALLOC], EventKind.ALIGNED, EventKind.MALLOC
    )
    nothing = np.zeros(len(present), np.int64)
    return replace(
        thread,
        created=max(thread.created - begin, 0) if NONE < thread.created < end else NONE,
        # A thread that had ended still allocates what it left.
        ended=max(thread.ended - begin, 0) if NONE < thread.ended < end else NONE,
        kind=np.concatenate([kinds, thread.kind[part]]),
        time=np.concatenate([nothing, np.maximum(thread.time[part], begin) - begin]),
        completed=np.concatenate([nothing, thread.completed[part] - begin]),
        object=np.concatenate([population, thread.object[part]]),
        freed=np.concatenate([np.full(len(present), NONE, np.int64), thread.freed[part]]),
    )


# Of what was measured at a mark, as questions/replay/figures.py has it: the peaks of the whole
# start and since the mark before. Those that a stretch has leave out its beginning and its end.
_PEAKS = frozenset({"heap_peak", "rss_peak"})


def _cut_marks(trace: Trace, begin: int, end: int) -> tuple[Mark, ...]:
    """Return the marks of a stretch, without peaks; its step at the beginning has its mark at 0."""
    if begin == 0 and end >= get_duration(trace):
        return trace.marks
    earlier = [mark for mark in trace.marks if mark.time < begin]
    within: list[Mark] = []
    for mark in trace.marks:
        if begin <= mark.time < end:
            truth = {name: size for name, size in mark.truth.items() if name not in _PEAKS}
            within.append(Mark(time=mark.time - begin, name=mark.name, truth=truth))
    if earlier and not any(mark.time == 0 for mark in within):
        within.insert(0, Mark(time=0, name=earlier[-1].name, truth={}))
    return tuple(within)
