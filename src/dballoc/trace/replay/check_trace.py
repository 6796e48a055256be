"""What a trace must hold so that it can be replayed, and which thread frees whose blocks. Pure."""

import numpy as np
from numpy.typing import NDArray

from dballoc.ground.errors import UsageError
from dballoc.trace.model import NONE, EventKind, ThreadEvents, Trace
from dballoc.trace.replay import plan_layout


def find_shared_objects(trace: Trace) -> NDArray[np.bool_]:
    """Return of each object whether another thread frees it than the one that allocates it.

    Raises UsageError unless every block is allocated once at most, freed once at most, and not
    before it is there: in its own thread by the order of the events, in another by their times.
    """
    _check_objects(trace)
    count = len(trace.objects.size)
    allocated_by = np.full(count, NONE, np.int32)
    place, since = np.full((2, count), NONE, np.int64)
    for index, events in enumerate(trace.threads):
        _check_events(events)
        rows = _find_rows(events.object, count, events)
        numbers = events.object[rows]
        again = allocated_by[numbers] != NONE
        allocated_by[numbers] = index
        place[numbers] = rows
        since[numbers] = events.completed[rows]
        _refuse(again | (place[numbers] != rows), numbers, "is allocated twice")
    freed_by = np.full(count, NONE, np.int32)
    freed_at = place  # each is looked at before it is overwritten
    for index, events in enumerate(trace.threads):
        rows = _find_rows(events.freed, count, events)
        rows = rows[allocated_by[events.freed[rows]] != NONE]
        numbers = events.freed[rows]
        again = freed_by[numbers] != NONE
        freed_by[numbers] = index
        foreign = allocated_by[numbers] != index
        early = np.where(foreign, events.time[rows] < since[numbers], rows <= place[numbers])
        _refuse(early, numbers, "is freed before it is allocated")
        freed_at[numbers] = rows
        _refuse(again | (freed_at[numbers] != rows), numbers, "is freed twice")
    return (allocated_by != freed_by) & (freed_by != NONE)


def find_allocated_objects(trace: Trace) -> NDArray[np.bool_]:
    """Return of each object whether the trace has its allocation."""
    allocated = np.zeros(len(trace.objects.size), np.bool_)
    for events in trace.threads:
        allocated[events.object[events.object != NONE]] = True
    return allocated


def _check_objects(trace: Trace) -> None:
    size, alignment = trace.objects.size, trace.objects.alignment
    if not len(size) == len(alignment) == len(trace.objects.touch):
        raise UsageError("trace: the columns of its blocks have different lengths")
    if len(size) and int(size.max()) > plan_layout.LARGEST_SIZE:
        raise UsageError(
            f"trace: a block of {int(size.max())} bytes; no more than "
            f"{plan_layout.LARGEST_SIZE} can be replayed"
        )
    if not 512 <= trace.facts.page_size <= 1 << 30:
        raise UsageError(f"trace: pages of {trace.facts.page_size} bytes")
    wide = alignment.astype(np.int64)
    if len(wide) and ((wide & (wide - 1)).any() or int(wide.max()) > plan_layout.LARGEST_ALIGNMENT):
        raise UsageError("trace: an alignment that is no power of two up to 1 GiB")
    for pattern in trace.touch_patterns:
        if any(not 0 <= number < 1 << 62 for run in pattern for number in run):
            raise UsageError("trace: a pattern of touched pages with a number that cannot be")
    touch = trace.objects.touch
    if len(touch) and not NONE <= int(touch.min()) <= int(touch.max()) < len(trace.touch_patterns):
        raise UsageError("trace: a block's pattern of touched pages is not in the trace")


def _check_events(events: ThreadEvents) -> None:
    where = f"trace: thread {events.number}"
    columns = (events.time, events.completed, events.object, events.freed)
    if any(len(column) != len(events.kind) for column in columns):
        raise UsageError(f"{where}: its columns have different lengths")
    if not len(events.kind):
        return
    if not 1 <= int(events.kind.min()) <= int(events.kind.max()) <= max(EventKind):
        raise UsageError(f"{where}: an event of an unknown kind")
    if int(events.time.min()) < 0 or (events.completed < events.time).any():
        raise UsageError(f"{where}: an event at a time before the trace, or completed before it")
    if (events.time[1:] < events.completed[:-1]).any():
        raise UsageError(f"{where}: its time runs backwards")
    both = (events.object != NONE) & (events.freed != NONE)
    if (events.kind[both] != EventKind.REALLOC).any():
        raise UsageError(f"{where}: an event that allocates and frees, and is no realloc")
    freeing = np.isin(events.kind, (EventKind.FREE, EventKind.FREE_SIZED))
    if (freeing & (events.object != NONE)).any():
        raise UsageError(f"{where}: a free that allocates")


def _find_rows(column: NDArray[np.int64], count: int, events: ThreadEvents) -> NDArray[np.int64]:
    """Find the events that have an object in that column. Raises UsageError if there is no such
    object.
    """
    if len(column) and not NONE <= int(column.min()) <= int(column.max()) < count:
        raise UsageError(f"trace: thread {events.number}: a block that the trace does not have")
    return np.flatnonzero(column != NONE)


def _refuse(wrong: NDArray[np.bool_], numbers: NDArray[np.int64], complaint: str) -> None:
    if wrong.any():
        raise UsageError(
            f"trace: block {int(numbers[wrong][0])} {complaint}; it cannot be replayed"
        )
