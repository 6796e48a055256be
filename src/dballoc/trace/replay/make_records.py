"""The records of one thread of a plan. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE, Columns, Objects, ThreadEvents
from dballoc.trace.replay.plan_layout import RECORD, RecordKind, pack_amount, pack_what
from dballoc.trace.replay.thread_births import Birth

_SMALL = 1 << 16


def assign_slots(
    allocates: NDArray[np.bool_], block: NDArray[np.int32]
) -> tuple[NDArray[np.int32], int]:
    """Return the slot of each block, and how many slots there are.

    The arguments are a thread's calls in their order: whether the call allocates, else it frees;
    and its block, numbered from 0 in the order of the allocations. A block gets the slot that was
    given back last, as from a stack, so that few slots are in use and those are in the CPU's cache.

    The stack is not run through: a free and the allocation that takes its slot are like a pair of
    brackets, and brackets of a pair are neighbours in a stable sort by their depth. The blocks of a
    slot are then a chain, whose first one is found by doubling the steps.
    """
    level = np.cumsum(1 - 2 * allocates.view(np.int8), dtype=np.int32)
    # Of a free the depth before it, of an allocation the depth after it: equal in a pair.
    level -= ~allocates
    if len(level):
        level -= level.min()
        if level.max() < _SMALL:
            level = level.astype(np.uint16)  # sorted by radix
    order = np.argsort(level, kind="stable")
    opens, closes = order[:-1], order[1:]
    paired = ~allocates[opens] & allocates[closes] & (level[opens] == level[closes])
    count = int(np.count_nonzero(allocates))
    itself = np.arange(count, dtype=np.int32)
    before = itself.copy()
    before[block[closes[paired]]] = block[opens[paired]]
    slot = np.cumsum(before == itself, dtype=np.int32) - 1
    while True:
        further = before[before]
        if np.array_equal(further, before):
            break
        before = further
    return slot[before], int(slot[-1]) + 1 if count else 0


# Items whose records are made at once: what is needed meanwhile stays in the CPU's cache.
_PIECE = 1 << 17


@dataclass(frozen=True, kw_only=True)
class PlanObjects:
    """What the records of all threads need of the objects. ``allocated``: the trace has its
    allocation. ``shared_slot``: the slot of one that another thread frees, NONE of the others.
    ``own_slot``: the slots of the others, filled in thread by thread.
    """

    objects: Objects
    allocated: NDArray[np.bool_]
    shared_slot: NDArray[np.int32]
    own_slot: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class _Items(Columns):
    """What a thread does, one element each, in order: its events, the births of the threads that it
    creates, and its end. ``child``: the thread that is born; ``new``, ``old``: the objects that are
    allocated and freed; each NONE where there is none.
    """

    kind: NDArray[np.uint8]
    time: NDArray[np.int64]
    new: NDArray[np.int32]
    old: NDArray[np.int32]
    child: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class ThreadRecords:
    """A thread's records in pieces, and how many slots of its own it has."""

    slots: int
    pieces: Iterator[NDArray[np.void]]


def make_records(
    events: ThreadEvents, births: tuple[Birth, ...], plan: PlanObjects, epoch_ns: int
) -> ThreadRecords:
    """Make the records of a thread.

    A realloc is two records, for the block it is given and the one it returns, both at the time
    when that one is there. A block with a pattern of touched pages has a record more. Before the
    first item of each epoch is a TICK.
    """
    items = _list_items(events, births, plan.allocated)
    slots = _assign_own_slots(items, plan)
    return ThreadRecords(slots=slots, pieces=_make_pieces(items, plan, epoch_ns))


def _make_pieces(items: _Items, plan: PlanObjects, epoch_ns: int) -> Iterator[NDArray[np.void]]:
    epoch = NONE
    for start in range(0, len(items.kind), _PIECE):
        piece = items.select(slice(start, start + _PIECE))
        yield _make_piece(piece, plan, epoch_ns, epoch)
        epoch = int(piece.time[-1]) // epoch_ns


def _make_piece(
    items: _Items, plan: PlanObjects, epoch_ns: int, epoch_before: int
) -> NDArray[np.void]:
    """Make the records of some items; ``epoch_before``: the epoch that the thread is in."""
    epoch = items.time // epoch_ns
    offset = items.time - epoch * epoch_ns
    enters = np.diff(epoch, prepend=epoch_before) != 0
    moves = (items.new != NONE) & (items.old != NONE)
    pattern = np.full(len(items.new), NONE, np.int32)
    if len(plan.objects.touch):
        pattern = np.where(items.new != NONE, plan.objects.touch[items.new], NONE)
    touches = pattern != NONE
    # The records of an item, in their order: TICK, FROM, the item, TOUCH.
    count = enters.astype(np.int64) + moves + 1 + touches
    start = np.cumsum(count) - count
    place = start + enters + moves
    records = np.zeros(int(count.sum()), RECORD)
    records["what"][place] = pack_what(0, items.kind)
    records["amount"][place] = pack_amount(0, offset)
    _name_block(records, place, items.new, plan, is_new=True)
    _name_block(records, place[~moves], items.old[~moves], plan, is_new=False)
    born = items.kind == RecordKind.CREATE
    records["what"][place[born]] |= pack_what(items.child[born], 0)
    before = place[moves] - 1
    records["what"][before] = pack_what(0, np.full(len(before), RecordKind.FROM))
    records["amount"][before] = pack_amount(0, offset[moves])
    _name_block(records, before, items.old[moves], plan, is_new=False)
    records["what"][start[enters]] = pack_what(epoch[enters], RecordKind.TICK)
    records["what"][place[touches] + 1] = pack_what(pattern[touches], RecordKind.TOUCH)
    return records


def _list_items(
    events: ThreadEvents, births: tuple[Birth, ...], allocated: NDArray[np.bool_]
) -> _Items:
    """List what a thread does. Left out are frees of blocks that the trace does not allocate; a
    realloc of one only allocates.
    """
    old = events.freed.astype(np.int32)
    if len(allocated):
        old[(old != NONE) & ~allocated[old]] = NONE
    rows = (events.object != NONE) | (old != NONE)
    time = events.completed[rows]
    at = np.searchsorted(time, [birth.time for birth in births], "left")
    born = at + np.arange(len(births))
    is_event = np.ones(len(time) + len(births) + 1, np.bool_)
    is_event[born] = is_event[-1] = False

    def put(column: NDArray[Any], rest: int) -> NDArray[Any]:
        full = np.full(len(is_event), rest, column.dtype)
        full[is_event] = column
        return full

    items = _Items(
        kind=put(events.kind[rows], RecordKind.CREATE),
        time=put(time, 0),
        new=put(events.object[rows].astype(np.int32), NONE),
        old=put(old[rows], NONE),
        child=np.full(len(is_event), NONE, np.int32),
    )
    items.kind[(items.kind == RecordKind.REALLOC) & (items.new == NONE)] = RecordKind.FREE
    items.child[born] = [birth.thread for birth in births]
    items.time[born] = [birth.time for birth in births]
    items.kind[-1] = RecordKind.END
    # Not before its creation, nor before events that are left out: the thread holds up all others
    # until it has come to its end.
    last = [*items.time[-2:-1].tolist(), *events.completed[-1:].tolist()]
    items.time[-1] = max([events.created, events.ended, *last, 0])
    return items


def _assign_own_slots(items: _Items, plan: PlanObjects) -> int:
    """Give the objects of this thread alone their slots; return how many slots there are."""
    # A realloc gives its old slot back before it needs a new one.
    both = np.stack((items.old, items.new), axis=1).ravel()
    is_own = both != NONE
    is_own[is_own] = plan.shared_slot[both[is_own]] == NONE
    numbers = both[is_own]
    allocates = np.tile([False, True], len(items.kind))[is_own]
    new = numbers[allocates]
    plan.own_slot[new] = np.arange(len(new), dtype=np.int32)
    slot, count = assign_slots(allocates, plan.own_slot[numbers])
    plan.own_slot[new] = slot
    return count


def _name_block(
    records: NDArray[np.void],
    place: NDArray[np.int64],
    numbers: NDArray[np.int32],
    plan: PlanObjects,
    *,
    is_new: bool,
) -> None:
    """Add to the records at these places what they say of a block: slot, size, alignment."""
    named = numbers != NONE
    place, numbers = place[named], numbers[named]
    objects = plan.objects
    shared = plan.shared_slot[numbers]
    alignment = objects.alignment[numbers]
    power = np.log2(np.maximum(alignment, 1)).astype(np.uint64) if alignment.any() else 0
    records["what"][place] |= pack_what(
        np.where(shared != NONE, shared, plan.own_slot[numbers]),
        0,
        shared=shared != NONE,
        pattern=(objects.touch[numbers] != NONE) & is_new,
        alignment=power,
    )
    records["amount"][place] |= pack_amount(objects.size[numbers], 0)
