"""When each thread of a trace is created in its replay, and by which other. Pure."""

from dataclasses import dataclass

from dballoc.trace.model import NONE, ThreadEvents, Trace


@dataclass(frozen=True, kw_only=True)
class Birth:
    """A thread, by its index in the trace, and the ns of the trace at which it is created."""

    thread: int
    time: int


@dataclass(frozen=True, kw_only=True)
class Births:
    """``roots``: threads that are there from the beginning; ``by_creator``: those that each thread
    creates, in the order of time.
    """

    roots: frozenset[int]
    by_creator: dict[int, tuple[Birth, ...]]


def find_births(trace: Trace) -> Births:
    """Find who creates whom, and when: when the trace says, else when the thread first does
    something; never after it creates another. A thread without a known creator is a root; so is one
    thread of each circle.
    """
    creator = _find_creators(trace)
    moment = {
        index: time
        for index, events in enumerate(trace.threads)
        if (time := _find_moment(events)) != NONE
    }
    # A thread that creates another is there by then.
    for index in sorted(moment, key=lambda each: moment[each]):
        while (above := creator[index]) != NONE:
            if above in moment and moment[above] <= moment[index]:
                break
            moment[above] = moment[index]
            index = above
    children: dict[int, list[Birth]] = {}
    for index in sorted(moment, key=lambda each: (moment[each], each)):
        if creator[index] != NONE:
            birth = Birth(thread=index, time=moment[index])
            children.setdefault(creator[index], []).append(birth)
    return Births(
        roots=frozenset(i for i in range(len(creator)) if creator[i] == NONE or i not in moment),
        by_creator={index: tuple(births) for index, births in children.items()},
    )


def count_threads_at_once(trace: Trace) -> int:
    """Count the threads that are alive at once, at most, if none is ahead of its time."""
    births = find_births(trace)
    moments = {birth.thread: birth.time for each in births.by_creator.values() for birth in each}
    changes = [(moments.get(index, 0), 1) for index in range(len(trace.threads))]
    changes += [(events.ended, -1) for events in trace.threads if events.ended != NONE]
    alive = most = 0
    for _, change in sorted(changes):
        alive += change
        most = max(most, alive)
    return most


def _find_moment(events: ThreadEvents) -> int:
    if events.created != NONE:
        return events.created
    return int(events.completed[0]) if len(events.kind) else events.ended


def _find_creators(trace: Trace) -> list[int]:
    """Find the index of each thread's creator, NONE for roots; circles are cut."""
    index_of = {events.number: index for index, events in enumerate(trace.threads)}
    creator = [index_of.get(events.created_by, NONE) for events in trace.threads]
    settled: set[int] = set()
    for index in range(len(creator)):
        path: list[int] = []
        on_path: set[int] = set()
        at = index
        while at != NONE and at not in settled and at not in on_path:
            path.append(at)
            on_path.add(at)
            at = creator[at]
        if at in on_path:
            creator[at] = NONE
        settled |= on_path
    return creator
