"""Check that a trace can be replayed and counted: see :mod:`dballoc.trace.model`. Pure."""

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE, Objects, ThreadEvents


class InvalidTrace(Exception):
    """The events do not make a trace; the text is a short reason."""


def find_births(threads: tuple[ThreadEvents, ...], count: int) -> NDArray[np.int64]:
    """Return when each of ``count`` objects was allocated, in ns."""
    births = np.zeros(count, np.int64)
    for thread in threads:
        allocated = thread.object != NONE
        births[thread.object[allocated]] = thread.completed[allocated]
    return births


def check_sizes(objects: Objects) -> None:
    """Raise InvalidTrace if the objects' sizes together are beyond what can be counted."""
    if objects.size.sum(dtype=np.float64) >= 2**62:
        raise InvalidTrace("its blocks are larger than any memory")


def check_trace(threads: tuple[ThreadEvents, ...], objects: Objects) -> None:
    """Raise InvalidTrace if blocks are too large, if one is freed twice, or by another thread
    before it is allocated, if a thread begins before it is created or goes on after its end, has a
    creator that is not there or is its own offspring.
    """
    check_sizes(objects)
    is_freed = np.zeros(len(objects.size), bool)
    frees = 0
    births = find_births(threads, len(objects.size))
    for index, thread in enumerate(threads):
        first, last = _find_first_and_last(thread)
        if thread.created > first:
            raise InvalidTrace("a thread begins before it is created")
        if thread.ended != NONE and thread.ended < last:
            raise InvalidTrace("a thread goes on after its end")
        events = np.flatnonzero(thread.freed != NONE)
        freed = thread.freed[events]
        is_freed[freed] = True
        frees += len(freed)
        foreign = objects.allocated_by[freed] != index
        if (births[freed[foreign]] > thread.time[events[foreign]]).any():
            raise InvalidTrace("a block is freed by another thread before it is allocated")
    if np.count_nonzero(is_freed) != frees:
        raise InvalidTrace("a block is freed twice")
    _check_creators(threads)


def _find_first_and_last(thread: ThreadEvents) -> tuple[int, int]:
    """Return when a thread does something first and last: nothing else than to be created, if it
    has no events.
    """
    if len(thread.kind):
        return int(thread.time[0]), int(thread.completed[-1])
    return thread.created, thread.created


def _check_creators(threads: tuple[ThreadEvents, ...]) -> None:
    creators = {thread.number: thread.created_by for thread in threads}
    if len(creators) != len(threads):
        raise InvalidTrace("two threads have the same number")
    if not set(creators.values()) <= creators.keys() | {NONE}:
        raise InvalidTrace("a thread was created by one that is not there")
    checked = {NONE}
    for number in creators:
        path = []
        while number not in checked:
            checked.add(number)
            path.append(number)
            number = creators[number]
        if number in path:
            raise InvalidTrace("threads created each other")
