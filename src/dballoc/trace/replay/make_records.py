"""The records of one thread of a plan. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import NONE, Objects, ThreadEvents
from dballoc.trace.replay.assign_slots import assign_slots
from dballoc.trace.replay.plan_layout import RECORD, RecordKind, pack_amount, pack_what
from dballoc.trace.replay.thread_births import Birth

_Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PlanObjects:
    """What the records of all threads need of the objects. ``allocated``: the trace has its
    allocation. ``shared_slot``: the slot of one that another thread frees, NONE of the others.
    ``own_slot``: the slots of the others, filled in thread by thread.
    """

    objects: Objects
    allocated: NDArray[np.bool_]
    shared_slot: _Integers
    own_slot: _Integers


@dataclass(frozen=True, kw_only=True)
class _Items:
    """What a thread does, one element each, in order: its events, the births of the threads that it
    creates, and its end. ``child``: the thread that is born; ``new``, ``old``: the objects that are
    allocated and freed; each NONE where there is none.
    """

    kind: _Integers
    time: _Integers
    new: _Integers
    old: _Integers
    child: _Integers


def make_records(
    events: ThreadEvents, births: tuple[Birth, ...], plan: PlanObjects, epoch_ns: int
) -> tuple[NDArray[np.void], int]:
    """Make the records of a thread, and count its own slots.

    A realloc is two records, for the block it is given and the one it returns, both at the time
    when that one is there. A block with a pattern of touched pages has a record more. Before the
    first item of each epoch is a TICK.
    """
    items = _list_items(events, births, plan.allocated)
    slots = _assign_own_slots(items, plan)
    epoch = items.time // epoch_ns
    offset = items.time - epoch * epoch_ns
    enters = np.diff(epoch, prepend=NONE) != 0
    moves = (items.new != NONE) & (items.old != NONE)
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
    return records, slots


def _list_items(
    events: ThreadEvents, births: tuple[Birth, ...], allocated: NDArray[np.bool_]
) -> _Items:
    """List what a thread does. Left out are frees of blocks that the trace does not allocate; a
    realloc of such a block only allocates.
    """
    old = events.freed.astype(np.int64)
    old[(old != NONE) & ~allocated[old]] = NONE
    row = np.flatnonzero((events.object != NONE) | (old != NONE))
    time = events.completed[row].astype(np.int64)
    moment = np.array([birth.time for birth in births], np.int64)
    child = np.array([birth.thread for birth in births], np.int64)
    at = np.searchsorted(time, moment, "left")
    last = max(events.ended, int(time[-1]) if len(time) else 0, *moment.tolist(), 0)
    kind = events.kind[row].astype(np.int64)
    kind[(kind == RecordKind.REALLOC) & (events.object[row] == NONE)] = RecordKind.FREE
    return _Items(
        kind=np.append(np.insert(kind, at, RecordKind.CREATE), RecordKind.END),
        time=np.append(np.insert(time, at, moment), last),
        new=np.append(np.insert(events.object[row].astype(np.int64), at, NONE), NONE),
        old=np.append(np.insert(old[row], at, NONE), NONE),
        child=np.append(np.insert(np.full(len(row), NONE), at, child), NONE),
    )


def _assign_own_slots(items: _Items, plan: PlanObjects) -> int:
    """Give the objects of this thread alone their slots; return how many slots there are."""
    # A realloc gives its old slot back before it needs a new one.
    both = np.stack((items.old, items.new), axis=1).ravel()
    allocates = np.tile([False, True], len(items.kind))
    own = both != NONE
    own[own] = plan.shared_slot[both[own]] == NONE
    numbers, allocates = both[own], allocates[own]
    new = numbers[allocates]
    plan.own_slot[new] = np.arange(len(new))
    slot, count = assign_slots(allocates, plan.own_slot[numbers])
    plan.own_slot[new] = slot
    return count


def _name_block(
    records: NDArray[np.void],
    place: _Integers,
    numbers: _Integers,
    plan: PlanObjects,
    *,
    is_new: bool,
) -> None:
    """Add to the records at these places what they say of a block: slot, size, alignment."""
    named = numbers != NONE
    place, numbers = place[named], numbers[named]
    objects = plan.objects
    shared = plan.shared_slot[numbers]
    power = np.log2(np.maximum(objects.alignment[numbers], 1)).astype(np.int64)
    records["what"][place] |= pack_what(
        np.where(shared != NONE, shared, plan.own_slot[numbers]),
        0,
        shared=shared != NONE,
        pattern=(objects.touch[numbers] != NONE) & is_new,
        alignment=power,
    )
    records["amount"][place] |= pack_amount(objects.size[numbers], 0)
