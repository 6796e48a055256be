"""A control for replays: a trace in which the frees end other blocks than they did. Pure."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.changes.trace_parts import find_freed_by
from dballoc.trace.compilation.draw_touches import classify_sizes
from dballoc.trace.model import NONE, Trace


def shuffle_lifetimes(trace: Trace, seed: int) -> Trace:
    """Return the trace with every free ending one of the blocks that are alive at that moment,
    drawn at random from those of the same allocating thread and size class.

    What is left is what a histogram keeps: every call with its thread, time and size, how many
    blocks of each class are alive at any time, which threads free whose blocks, and the mean life
    of a class. What goes is which of them lives long. The same seed draws the same.
    """
    frees = _list_frees(trace)
    allocations = _list_allocations(trace)
    classes = classify_sizes(trace.objects.size)
    owner = np.concatenate([allocations.owner, frees.owner])
    size_class = classes[np.concatenate([allocations.block, frees.block])]
    place = np.concatenate([allocations.place, frees.place])
    order = np.lexsort((place, size_class, owner))
    group = owner[order].astype(np.int64) << 16 | size_class[order].astype(np.int64)
    is_free = order >= len(allocations.block)
    blocks = np.where(is_free, NONE, np.append(allocations.block, frees.block)[order])
    drawn = np.empty(len(frees.block), np.int64)
    drawn[order[is_free] - len(allocations.block)] = _draw_deaths(group, blocks, seed)
    threads = []
    first = 0
    for thread in trace.threads:
        freed = thread.freed.copy()
        rows = np.flatnonzero(freed != NONE)
        freed[rows] = drawn[first : first + len(rows)]
        first += len(rows)
        threads.append(replace(thread, freed=freed))
    history = (*trace.compiled.history, "lifetimes shuffled within threads and size classes")
    return replace(
        trace,
        threads=tuple(threads),
        objects=find_freed_by(tuple(threads), trace.objects),
        compiled=replace(trace.compiled, history=history),
    )


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """Allocations or frees of all threads, one element each: the ``block``, the thread that
    allocates it (``owner``), and the ``place`` among the owner's calls: four each, the free first.
    """

    owner: NDArray[np.int64]
    block: NDArray[np.int64]
    place: NDArray[np.int64]


def _list_allocations(trace: Trace) -> _Ends:
    rows = [np.flatnonzero(thread.object != NONE) for thread in trace.threads]
    blocks = [t.object[r] for t, r in zip(trace.threads, rows, strict=True)]
    return _Ends(
        owner=np.repeat(np.arange(len(rows)), [len(r) for r in rows]),
        block=np.concatenate([np.zeros(0, np.int64), *blocks]),
        place=np.concatenate([np.zeros(0, np.int64), *rows]) * 4 + 2,
    )


def _list_frees(trace: Trace) -> _Ends:
    """List the frees, thread by thread. Another thread's free comes behind those calls of the owner
    that were completed by then.
    """
    rows = [np.flatnonzero(thread.freed != NONE) for thread in trace.threads]
    blocks = [t.freed[r] for t, r in zip(trace.threads, rows, strict=True)]
    times = [t.time[r] for t, r in zip(trace.threads, rows, strict=True)]
    nothing = np.zeros(0, np.int64)
    block, time = np.concatenate([nothing, *blocks]), np.concatenate([nothing, *times])
    by = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    owner = trace.objects.allocated_by[block].astype(np.int64)
    place = np.concatenate([nothing, *rows]) * 4
    for index, thread in enumerate(trace.threads):
        foreign = np.flatnonzero((owner == index) & (by != index))
        place[foreign] = np.searchsorted(thread.completed, time[foreign], side="right") * 4 - 1
    return _Ends(owner=owner, block=block, place=place)


def _draw_deaths(
    group: NDArray[np.int64], blocks: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """Return which block each free ends, in order. ``blocks``: those that are allocated, in each
    group in order; NONE: a free.
    """
    numbers = np.random.default_rng(seed).random(len(blocks)).tolist()
    deaths = []
    alive: list[int] = []
    before = NONE
    for which, block, number in zip(group.tolist(), blocks.tolist(), numbers, strict=True):
        if which != before:
            alive, before = [], which
        if block != NONE:
            alive.append(block)
            continue
        at = int(number * len(alive))
        deaths.append(alive[at])
        alive[at] = alive[-1]
        alive.pop()
    return np.array(deaths, np.int64)
