"""What each thread of a trace does in all, for a replay to be checked against. Pure."""

from dataclasses import dataclass

import numpy as np

from dballoc.trace.model import NONE, EventKind, Trace


@dataclass(frozen=True, kw_only=True)
class ThreadTotals:
    """``calls`` of a thread by EventKind, in its order, without frees of blocks that the trace does
    not allocate; ``live``: bytes that it allocates less those that it frees.
    """

    calls: tuple[int, ...]
    live: int


def compute_thread_totals(trace: Trace) -> tuple[ThreadTotals, ...]:
    """Return what each thread does, in the order of the trace's threads."""
    sizes = trace.objects.size.astype(np.int64)
    totals = []
    for thread in trace.threads:
        is_free = (thread.kind == EventKind.FREE) | (thread.kind == EventKind.FREE_SIZED)
        kinds = thread.kind[~(is_free & (thread.freed == NONE))]
        counts = np.bincount(kinds, minlength=max(EventKind) + 1)[1:]
        born = sizes[thread.object[thread.object != NONE]].sum()
        freed = sizes[thread.freed[thread.freed != NONE]].sum()
        totals.append(ThreadTotals(calls=tuple(map(int, counts)), live=int(born - freed)))
    return tuple(totals)
