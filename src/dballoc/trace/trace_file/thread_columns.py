"""The events of a thread as columns of small integers, and back. Pure.

``op`` has a byte an event: bits 0–2 its kind, 3–4 what it frees (0 nothing that is known, 1 a block
of its own thread, 2 one of another), 5 whether its object has a touch pattern, 6 an alignment. The
other columns have an integer only for those events that need one:

``delay``      all: from the end of the event before (0 for the first) to this one's time
``span``       REALLOC: from its time to its completion
``size``       that allocate: bytes
``alignment``  with bit 6: bytes
``touch``      with bit 5: the pattern
``distance``   that free their own: how many of the thread's allocations ago, 0 the last one
``owner``      that free another's: the index of the thread that allocated it
``position``   that free another's: its number among its thread's allocations, as the signed
difference to the last one of that thread that was freed so

Times are in units of the trace's resolution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE, EventColumns, EventKind, Objects, ThreadEvents
from dballoc.trace.trace_file.varints import decode_signs, encode_signs

KIND, FREES, TOUCHED, ALIGNED = 0b111, 0b11000, 0b100000, 0b1000000
FREES_OWN, FREES_OTHER = 0b01000, 0b10000
COLUMNS = ("delay", "span", "size", "alignment", "touch", "distance", "owner", "position")


class InvalidColumns(Exception):
    """The columns are not those of a thread's events."""


def count_column(name: str, op: NDArray[np.uint8]) -> int:
    """Return how many integers a column has for these events."""
    return int(np.count_nonzero(select_events(name, op)))


def select_events(name: str, op: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which of these events have an integer in a column."""
    kind = op & KIND
    match name:
        case "delay":
            return np.ones(len(op), bool)
        case "span":
            return kind == EventKind.REALLOC
        case "size":
            return kind <= EventKind.REALLOC
        case "alignment":
            return op & ALIGNED != 0
        case "touch":
            return op & TOUCHED != 0
        case "distance":
            return op & FREES == FREES_OWN
    return op & FREES == FREES_OTHER


def find_bases(allocations: Sequence[int]) -> NDArray[np.int64]:
    """Return the first object of each thread, and at the end the number of objects, where they are
    numbered thread by thread. ``allocations``: how many each thread makes.
    """
    return np.concatenate([[0], np.cumsum(allocations, dtype=np.int64)]).astype(np.int64)


def make_columns(
    events: ThreadEvents, objects: Objects, bases: NDArray[np.int64], index: int, resolution: int
) -> tuple[NDArray[np.uint8], dict[str, NDArray[np.uint64]]]:
    """Return ``op`` and the other columns. ``bases`` has the first object of each thread, ``index``
    is this one's. The objects are numbered thread by thread.
    """
    time, completed = events.time // resolution, events.completed // resolution
    previous = np.concatenate([[0], completed[:-1]]).astype(np.int64)
    allocated = events.object != NONE
    allocations = slice(bases[index], bases[index + 1])
    alignment, touch = objects.alignment[allocations], objects.touch[allocations]
    op = events.kind.copy()
    op[allocated] |= np.where(alignment != 0, np.uint8(ALIGNED), np.uint8(0))
    op[allocated] |= np.where(touch != NONE, np.uint8(TOUCHED), np.uint8(0))
    freed = np.flatnonzero(events.freed != NONE)
    target = events.freed[freed]
    is_own = (target >= bases[index]) & (target < bases[index + 1])
    op[freed] |= np.where(is_own, np.uint8(FREES_OWN), np.uint8(FREES_OTHER))
    before = np.cumsum(allocated) - allocated
    distance = before[freed[is_own]] - 1 - (target[is_own] - bases[index])
    foreign = target[~is_own]
    owner = np.searchsorted(bases, foreign, side="right") - 1
    columns = {
        "delay": time - previous,
        "span": (completed - time)[(events.kind == EventKind.REALLOC)],
        "size": objects.size[allocations],
        "alignment": alignment[alignment != 0],
        "touch": touch[touch != NONE],
        "distance": distance,
        "owner": owner,
        "position": encode_signs(_difference_by_owner(owner, foreign - bases[owner])),
    }
    return op, {name: column.astype(np.uint64) for name, column in columns.items()}


def _difference_by_owner(
    owner: NDArray[np.int64], position: NDArray[np.int64]
) -> NDArray[np.int64]:
    order = np.argsort(owner, kind="stable")
    ordered = position[order]
    differences = np.empty(len(position), np.int64)
    previous = np.zeros(len(position), np.int64)
    same = owner[order][1:] == owner[order][:-1]
    previous[1:][same] = ordered[:-1][same]
    differences[order] = ordered - previous
    return differences


def _sum_by_owner(owner: NDArray[np.int64], difference: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(owner, kind="stable")
    sums = np.cumsum(difference[order])
    starts = np.ones(len(owner), bool)
    starts[1:] = owner[order][1:] != owner[order][:-1]
    before = np.concatenate([[0], sums[:-1]])
    position = np.empty(len(owner), np.int64)
    position[order] = sums - np.repeat(before[starts], np.diff(np.flatnonzero([*starts, True])))
    return position


@dataclass(frozen=True, kw_only=True)
class ThreadShape:
    """What a thread's columns are turned back with: as for :func:`make_columns`; ``patterns`` is
    how many there are.
    """

    index: int
    bases: NDArray[np.int64]
    resolution: int
    patterns: int


@dataclass(frozen=True, kw_only=True)
class ThreadParts(EventColumns):
    """The events of a thread, and the arrays of the objects that it allocates."""

    size: NDArray[np.uint64]
    alignment: NDArray[np.uint32]
    touch: NDArray[np.int32]


def restore_thread(
    op: NDArray[np.uint8], columns: Mapping[str, NDArray[np.uint64]], shape: ThreadShape
) -> ThreadParts:
    """Return a thread's arrays. Raises InvalidColumns if there is no such thread."""
    kind = op & np.uint8(KIND)
    allocates = kind <= EventKind.REALLOC
    if len(op) and (kind.min() < min(EventKind) or kind.max() > max(EventKind) or op.max() > 127):
        raise InvalidColumns("an event of no known kind")
    if (~allocates & (op & (TOUCHED | ALIGNED) != 0)).any():
        raise InvalidColumns("a free with the marks of an allocation")
    if ((kind < EventKind.REALLOC) & (op & FREES != 0)).any() or (op & FREES == FREES).any():
        raise InvalidColumns("an event that frees and cannot")
    if columns["size"].max(initial=0) >= 2**62:
        raise InvalidColumns("a block larger than any memory")
    time, completed = _restore_times(kind, columns, shape.resolution)
    base = int(shape.bases[shape.index])
    count = int(np.count_nonzero(allocates))
    if count != int(shape.bases[shape.index + 1]) - base:
        raise InvalidColumns("another number of allocations than it declares")
    numbers = np.full(len(op), NONE, np.int64)
    numbers[allocates] = np.arange(base, base + count)
    return ThreadParts(
        kind=kind,
        time=time,
        completed=completed,
        object=numbers,
        freed=_restore_freed(op, allocates, columns, shape),
        size=columns["size"],
        alignment=_spread(op[allocates] & ALIGNED != 0, columns["alignment"], 0, 2**32).astype(
            np.uint32
        ),
        touch=_spread(op[allocates] & TOUCHED != 0, columns["touch"], NONE, shape.patterns).astype(
            np.int32
        ),
    )


def _restore_times(
    kind: NDArray[np.uint8], columns: Mapping[str, NDArray[np.uint64]], resolution: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    span = np.zeros(len(kind), np.uint64)
    span[kind == EventKind.REALLOC] = columns["span"]
    delay = columns["delay"]
    # In floating point first, which cannot wrap round.
    total = (delay.sum(dtype=np.float64) + span.sum(dtype=np.float64)) * resolution
    if total >= 2**62:
        raise InvalidColumns("times beyond any clock's")
    completed = np.cumsum(delay + span).astype(np.int64) * resolution
    return completed - span.astype(np.int64) * resolution, completed


def _restore_freed(
    op: NDArray[np.uint8],
    allocates: NDArray[np.bool_],
    columns: Mapping[str, NDArray[np.uint64]],
    shape: ThreadShape,
) -> NDArray[np.int64]:
    freed = np.full(len(op), NONE, np.int64)
    near, foreign = select_events("distance", op), select_events("owner", op)
    before: NDArray[np.int64] = (np.cumsum(allocates) - allocates)[near]
    if (columns["distance"] >= before.astype(np.uint64)).any():
        raise InvalidColumns("a free of a block before the thread's first")
    freed[near] = shape.bases[shape.index] + before - 1 - columns["distance"].astype(np.int64)
    owners = columns["owner"]
    if (owners >= len(shape.bases) - 1).any() or (owners == shape.index).any():
        raise InvalidColumns("a free of another thread's block, of no other thread")
    owner = owners.astype(np.int64)
    difference = decode_signs(columns["position"])
    position = _sum_by_owner(owner, difference)
    # Sums that wrapped round would be of differences that no valid file has.
    if len(difference) and (
        np.abs(difference.astype(np.float64)).sum() > 2**62
        or (position < 0).any()
        or (position >= shape.bases[owner + 1] - shape.bases[owner]).any()
    ):
        raise InvalidColumns("a free of another thread's block that it never allocated")
    freed[foreign] = shape.bases[owner] + position
    return freed


def _spread(
    chosen: NDArray[np.bool_], values: NDArray[np.uint64], elsewhere: int, limit: int
) -> NDArray[np.int64]:
    if (values >= np.uint64(limit)).any():
        raise InvalidColumns("an alignment or a touch pattern that cannot be")
    spread = np.full(len(chosen), elsewhere, np.int64)
    spread[chosen] = values
    return spread
