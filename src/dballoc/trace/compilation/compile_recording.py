"""Turn a recording into a trace: blocks that have addresses become objects that have numbers. Pure.

What does not fit together is counted and never fatal: frees of blocks that were not seen
allocated, second frees, and addresses that are handed out while they are in use, whose frees were
missed. For the latter a FREE is made up, right after the call that got the address and in its
thread, so that what is alive stays right.

Memory while it runs: up to 150 bytes an event.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.compilation.draw_touches import TouchDraw, draw_touches
from dballoc.trace.compilation.match_blocks import AddressUses, Matches, match_blocks
from dballoc.trace.model import (
    CALL_TYPES,
    NONE,
    CallColumns,
    CompileFacts,
    EventColumns,
    EventKind,
    Mark,
    Objects,
    Recording,
    ThreadCalls,
    ThreadEvents,
    Trace,
)

_LONGEST = 4096
_MOST_MARKS, _MOST_FIGURES, _MOST_NOTES = 100_000, 1000, 1000
_LARGEST = 2**62 - 1


def make_tellable(recording: Recording) -> Recording:
    """Return the recording with its texts cut to what a file holds, marks at real times, and
    threads that only threads of the recording created, none of them its own offspring.
    """
    facts = recording.facts
    return replace(
        recording,
        facts=replace(
            facts,
            dropped=min(facts.dropped, _LARGEST),
            ended_by=facts.ended_by[:_LONGEST],
            program=facts.program[:_LONGEST],
            allocator=facts.allocator[:_LONGEST],
            seconds=float(min(max(facts.seconds, 0.0), 1e10)),
            not_seen=tuple(note[:_LONGEST] for note in facts.not_seen[:_MOST_NOTES]),
            allocator_version=facts.allocator_version[:_LONGEST],
            settings=facts.settings
            and tuple(setting[:_LONGEST] for setting in facts.settings[:_MOST_NOTES]),
        ),
        threads=_check_creators(recording.threads),
        marks=tuple(
            Mark(
                time=int(min(max(mark.time, 0), _LARGEST)),
                name=mark.name[:_LONGEST],
                truth=_check_figures(mark.truth),
            )
            for mark in recording.marks[:_MOST_MARKS]
        ),
    )


def _check_figures(truth: Mapping[str, int]) -> dict[str, int]:
    figures = list(truth.items())[:_MOST_FIGURES]
    return {name[:_LONGEST]: min(max(value, -_LARGEST), _LARGEST) for name, value in figures}


def _check_creators(threads: tuple[ThreadCalls, ...]) -> tuple[ThreadCalls, ...]:
    creators: dict[int, int] = {}
    # A thread that has no calls is not in the recording; what it created has no known creator.
    numbers = {thread.number for thread in threads}
    for thread in threads:
        creator = thread.created_by if thread.created_by in numbers else NONE
        creators[thread.number] = creator
    states: dict[int, bool] = {NONE: True}  # whether all that created it is known to be right
    for number in creators:
        path = []
        while number not in states:
            states[number] = False
            path.append(number)
            number = creators[number]
        if not states[number]:
            creators[path[-1]] = NONE
        states.update(dict.fromkeys(path, True))
    return tuple(
        replace(thread, name=thread.name[:_LONGEST], created_by=creators[thread.number])
        for thread in threads
    )


# ns. Of the times alone is a trace large: docs/trace-format.md has the figures.
RESOLUTION = 10


@dataclass(frozen=True, kw_only=True)
class _Calls(CallColumns):
    """The calls of all threads, one after another; ``thread`` is an index, not a number."""

    thread: NDArray[np.int32]
    clock_steps: int


# ns: beyond any clock, but what a file holds.
_LAST = 2**61


def compile_recording(recording: Recording, resolution: int = RESOLUTION, seed: int = 0) -> Trace:
    """Return the trace of a recording. Times are rounded down to multiples of ``resolution``, in
    ns, which keeps their order; the pages that large blocks touch are drawn with ``seed``.
    """
    calls = _join_threads(recording.threads)
    allocating = np.flatnonzero(calls.kind <= EventKind.REALLOC)
    releasing = np.flatnonzero(
        (calls.kind >= EventKind.FREE) | ((calls.kind == EventKind.REALLOC) & (calls.old != 0))
    )
    freeing = calls.kind[releasing] >= EventKind.FREE
    matches = match_blocks(
        AddressUses(
            address=calls.address[allocating],
            time=calls.after[allocating],
            call=allocating,
            thread=calls.thread[allocating],
        ),
        AddressUses(
            address=np.where(freeing, calls.address[releasing], calls.old[releasing]),
            time=calls.before[releasing],
            call=releasing,
            thread=calls.thread[releasing],
        ),
    )
    freed = np.full(len(calls.kind), NONE, np.int64)
    freed[releasing] = matches.allocation_of
    events = _add_missed_frees(calls, allocating, freed, matches, resolution)
    objects = _make_objects(calls, allocating, events)
    touches = draw_touches(
        objects, _find_lifetimes(objects, events), calls.site[allocating], recording, seed
    )
    facts = CompileFacts(
        resolution=resolution,
        unknown_frees=matches.unknown,
        double_frees=matches.double,
        missed_frees=len(matches.missed),
        clock_steps=calls.clock_steps,
        touched_by_site=touches.by_site,
        touched_by_size=touches.by_size,
        touched_by_rule=touches.by_rule,
    )
    return _assemble(make_tellable(recording), events, objects, touches, facts)


def _join_threads(threads: tuple[ThreadCalls, ...]) -> _Calls:
    """Join the calls of all threads, without those that neither returned nor freed a block."""
    types = {"thread": np.int32, **CALL_TYPES}
    columns: dict[str, list[NDArray]] = {name: [np.zeros(0, t)] for name, t in types.items()}
    clock_steps = 0
    for index, thread in enumerate(threads):
        before, after, steps = _forbid_steps(thread.before, thread.after)
        clock_steps += steps
        kind = thread.kind.copy()
        # realloc(p, 0) of a malloc that frees then.
        kind[(kind == EventKind.REALLOC) & (thread.address == 0)] = EventKind.FREE
        address = np.where(thread.address == 0, thread.old, thread.address)
        kept = np.flatnonzero((address != 0) & (kind >= 1) & (kind <= max(EventKind)))
        stamped = replace(thread, kind=kind, before=before, after=after, address=address)
        columns["thread"].append(np.full(len(kept), index, np.int32))
        for name, column in stamped.select(kept).list_arrays().items():
            columns[name].append(column)
    arrays = {name: np.concatenate(parts) for name, parts in columns.items()}
    return _Calls(**arrays, clock_steps=clock_steps)


def _forbid_steps(
    before: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return a thread's stamps, none earlier than the one before it or than 0, and how many had to
    be moved.
    """
    stamps = np.empty(2 * len(before), np.int64)
    stamps[0::2], stamps[1::2] = before, after
    later = np.maximum.accumulate(np.clip(stamps, 0, _LAST))
    return later[0::2], later[1::2], int(np.count_nonzero(later != stamps))


@dataclass(frozen=True, kw_only=True)
class _Events(EventColumns):
    """The events of all threads, one after another; ``thread`` is an index, not a number."""

    thread: NDArray[np.int32]


def _add_missed_frees(
    calls: _Calls,
    allocating: NDArray[np.int64],
    freed: NDArray[np.int64],
    matches: Matches,
    resolution: int,
) -> _Events:
    """Make the events, with a FREE for every block whose free was missed."""
    numbers = np.full(len(calls.kind), NONE, np.int64)
    numbers[allocating] = np.arange(len(allocating))
    time = calls.before // resolution * resolution
    completed = calls.after // resolution * resolution
    events = _Events(
        thread=calls.thread,
        kind=calls.kind,
        time=np.where(calls.kind == EventKind.REALLOC, time, completed),
        completed=completed,
        object=numbers,
        freed=freed,
    )
    # A free has one stamp, from before the call.
    frees = calls.kind >= EventKind.FREE
    events.time[frees] = events.completed[frees] = time[frees]
    if not len(matches.missed):
        return events
    lost, following = matches.missed.T
    after = allocating[following]
    place = after + 1
    return _Events(
        thread=np.insert(events.thread, place, events.thread[after]),
        kind=np.insert(events.kind, place, np.uint8(EventKind.FREE)),
        time=np.insert(events.time, place, events.completed[after]),
        completed=np.insert(events.completed, place, events.completed[after]),
        object=np.insert(events.object, place, NONE),
        freed=np.insert(events.freed, place, lost),
    )


def _make_objects(calls: _Calls, allocating: NDArray[np.int64], events: _Events) -> Objects:
    frees = np.flatnonzero(events.freed != NONE)
    freed_by = np.full(len(allocating), NONE, np.int32)
    freed_by[events.freed[frees]] = events.thread[frees]
    return Objects(
        size=calls.size[allocating],
        alignment=calls.alignment[allocating],
        allocated_by=calls.thread[allocating],
        freed_by=freed_by,
        touch=np.full(len(allocating), NONE, np.int32),
    )


def _find_lifetimes(objects: Objects, events: _Events) -> NDArray[np.int64]:
    """Return how long each object lives, in ns; to the last event if it is never freed."""
    last = int(events.completed.max(initial=0))
    born = events.completed[events.object != NONE]
    lifetimes = last - born
    frees = np.flatnonzero(events.freed != NONE)
    lifetimes[events.freed[frees]] = events.time[frees] - born[events.freed[frees]]
    return lifetimes


def _find_life(
    thread: ThreadCalls, time: NDArray[np.int64], completed: NDArray[np.int64], resolution: int
) -> tuple[int, int]:
    """Return when a thread of these events was created and when it ended, each NONE if that is not
    known: not after the first of them and not before the last, which may have been moved.
    """
    created, ended = (
        moment if moment == NONE else min(max(moment, 0), _LAST) // resolution * resolution
        for moment in (thread.created, thread.ended)
    )
    if len(time):
        created = min(created, int(time[0]))
    last = int(completed[-1]) if len(completed) else created
    return created, ended if ended == NONE else max(ended, last)


def _cut_thread(thread: ThreadCalls, events: _Events, part: slice, resolution: int) -> ThreadEvents:
    """Return the events of one thread, which are this part of all."""
    time, completed = events.time[part], events.completed[part]
    created, ended = _find_life(thread, time, completed, resolution)
    return ThreadEvents(
        number=thread.number,
        name=thread.name,
        created_by=thread.created_by,
        created=created,
        ended=ended,
        kind=events.kind[part],
        time=time,
        completed=completed,
        object=events.object[part],
        freed=events.freed[part],
    )


def _assemble(
    recording: Recording,
    events: _Events,
    objects: Objects,
    touches: TouchDraw,
    facts: CompileFacts,
) -> Trace:
    edges = np.searchsorted(events.thread, np.arange(len(recording.threads) + 1))
    threads = tuple(
        _cut_thread(thread, events, slice(*edge), facts.resolution)
        for thread, edge in zip(recording.threads, pairwise(edges.tolist()), strict=True)
    )
    return Trace(
        facts=recording.facts,
        threads=threads,
        objects=replace(objects, touch=touches.touch),
        touch_patterns=touches.patterns,
        marks=recording.marks,
        compiled=facts,
    )
