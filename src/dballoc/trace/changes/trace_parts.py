"""What all changes of traces need. Pure."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE, Objects, ThreadEvents, Trace


def find_freed_by(threads: tuple[ThreadEvents, ...], objects: Objects) -> Objects:
    """Return the objects with ``allocated_by`` and ``freed_by`` as the threads' events have it."""
    allocated_by = np.full(len(objects.size), NONE, np.int32)
    freed_by = np.full(len(objects.size), NONE, np.int32)
    for index, thread in enumerate(threads):
        allocated_by[thread.object[thread.object != NONE]] = index
        freed_by[thread.freed[thread.freed != NONE]] = index
    return replace(objects, allocated_by=allocated_by, freed_by=freed_by)


def drop_idle_threads(trace: Trace) -> Trace:
    """Return the trace without threads that have no events and created none that has."""
    creators = {thread.number: thread.created_by for thread in trace.threads}
    needed: set[int] = set()
    for thread in trace.threads:
        number = thread.number if len(thread.kind) else NONE
        while number != NONE and number not in needed:
            needed.add(number)
            number = creators[number]
    threads = tuple(thread for thread in trace.threads if thread.number in needed)
    if len(threads) == len(trace.threads):
        return trace
    return replace(trace, threads=threads, objects=find_freed_by(threads, trace.objects))


def get_duration(trace: Trace) -> int:
    """Return how long a trace lasts, in ns: as recorded, and at least to its last event."""
    ends = [int(thread.completed[-1]) + 1 for thread in trace.threads if len(thread.completed)]
    return max([round(trace.facts.seconds * 1e9), *ends])


def rank_in_groups(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each element how many of its group come before it."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - starts
    return ranks
