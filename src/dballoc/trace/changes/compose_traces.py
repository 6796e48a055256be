"""A long trace from stretches, one after another. Pure.

Threads of the same number and name are the same thread. What is allocated at time 0 of a stretch is
its population: ``trace cut`` puts it there. At each boundary the next stretch's population takes
over blocks that are alive, of the same size and alignment, the oldest first; so memory that a
server holds for hours is not allocated anew in each repetition. What it finds no block for is
allocated; what is alive and not taken over is either freed by the thread that allocated it, so that
every stretch begins as it was recorded, or kept, so that what a stretch leaves behind adds up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.changes.trace_parts import find_freed_by, get_duration, rank_in_groups
from dballoc.trace.model import (
    NONE,
    Columns,
    CompileFacts,
    EventKind,
    Mark,
    Objects,
    RecordingFacts,
    ThreadEvents,
    Trace,
)
from dballoc.trace.trace_file.check_trace import find_births
from dballoc.trace.trace_file.write_trace import number_by_thread

Leftovers = Literal["free", "keep"]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A trace that is played so many times; its repetitions get marks with its name."""

    name: str
    trace: Trace
    times: int = 1


def count_events(stretches: Sequence[Stretch]) -> int:
    """Return about how many events the composed trace has: without those at the boundaries."""
    return sum(
        stretch.times * sum(len(thread.kind) for thread in stretch.trace.threads)
        for stretch in stretches
    )


def compose_traces(stretches: Sequence[Stretch], leftovers: Leftovers, days: int = 1) -> Trace:
    """Return the stretches as one trace, all of them so many ``days`` long. Its facts are the first
    one's, as far as they hold for all of them.
    """
    composition = _Composition(leftovers=leftovers)
    for day in range(1, days + 1):
        if days > 1:
            composition.add_mark(f"day {day}/{days}")
        for stretch in stretches:
            for number in range(1, stretch.times + 1):
                suffix = f" {number}/{stretch.times}" if stretch.times > 1 else ""
                composition.add_repetition(stretch.trace, stretch.name + suffix)
    return composition.build_trace([stretch.trace for stretch in stretches])


@dataclass(kw_only=True)
class _ComposedThread:
    """A thread of the composed trace, and its columns so far."""

    number: int
    name: str
    created_by: int
    created: int
    ended: int = NONE
    pieces: dict[str, list[NDArray]] = field(
        default_factory=lambda: {
            "kind": [np.zeros(0, np.uint8)],
            **{name: [np.zeros(0, np.int64)] for name in ("time", "completed", "object", "freed")},
        }
    )

    def append(self, **columns: NDArray) -> None:
        for name, column in columns.items():
            self.pieces[name].append(column)


@dataclass(frozen=True, kw_only=True)
class _LiveBlocks(Columns):
    """Blocks that are alive, the oldest first: their objects' numbers, and the index of the thread
    that allocated each.
    """

    number: NDArray[np.int64]
    size: NDArray[np.uint64]
    alignment: NDArray[np.uint32]
    owner: NDArray[np.int32]

    def join(self, other: "_LiveBlocks") -> "_LiveBlocks":
        """Return these and younger ones."""
        pairs = zip(vars(self).items(), vars(other).values(), strict=True)
        return _LiveBlocks(**{name: np.concatenate([old, new]) for (name, old), new in pairs})


_NO_BLOCKS = _LiveBlocks(
    number=np.zeros(0, np.int64),
    size=np.zeros(0, np.uint64),
    alignment=np.zeros(0, np.uint32),
    owner=np.zeros(0, np.int32),
)


@dataclass(kw_only=True)
class _Composition:
    """The trace so far; ``clock``: its length in ns, ``count``: its objects, ``repetitions``: how
    many stretches are in it.
    """

    leftovers: Leftovers
    threads: list[_ComposedThread] = field(default_factory=list)
    indices: dict[tuple[int, str], int] = field(default_factory=dict)
    clock: int = 0
    count: int = 0
    alive: _LiveBlocks = _NO_BLOCKS
    created: list[_LiveBlocks] = field(default_factory=lambda: [_NO_BLOCKS])
    touch: list[NDArray[np.int32]] = field(default_factory=lambda: [np.zeros(0, np.int32)])
    patterns: dict[tuple[tuple[int, int], ...], int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    repetitions: int = 0

    def add_repetition(self, trace: Trace, name: str) -> None:
        """Add the events of a trace once."""
        indices = self._map_threads(trace)
        births, population = _split_population(trace)
        matched, heirs = _match_by_size(trace, population, self.alive)
        fresh = np.ones(len(births), bool)
        fresh[population[matched]] = False
        new = np.full(len(births) + 1, NONE, np.int64)  # the last: of NONE
        new[population[matched]] = self.alive.number[heirs]
        new[:-1][fresh] = self.count + np.arange(int(np.count_nonzero(fresh)))
        if self.leftovers == "free":
            kept = np.zeros(len(self.alive.number), bool)
            kept[heirs] = True
            self._free_blocks(self.alive.select(~kept))
            self.alive = self.alive.select(kept)
        self._add_objects(trace, fresh, births, indices)
        for index, thread in zip(indices, trace.threads, strict=True):
            self.threads[index].ended = self._move(thread.ended)
            # A block that was taken over is not allocated again.
            played = (thread.object == NONE) | fresh[thread.object]
            self.threads[index].append(
                kind=thread.kind[played],
                time=thread.time[played] + self.clock,
                completed=thread.completed[played] + self.clock,
                object=new[thread.object[played]],
                freed=new[thread.freed[played]],
            )
        gone = new[:-1][trace.objects.freed_by != NONE]
        self.alive = self.alive.select(~np.isin(self.alive.number, gone))
        self.add_mark(name)
        self.repetitions += 1
        resolution = trace.compiled.resolution
        self.clock += -(-get_duration(trace) // resolution) * resolution

    def _move(self, moment: int) -> int:
        """Return when a moment of the stretch is here; NONE stays."""
        return NONE if moment == NONE else self.clock + moment

    def add_mark(self, name: str) -> None:
        """Name what begins now."""
        self.marks.append(Mark(time=self.clock, name=name, truth={}))

    def _map_threads(self, trace: Trace) -> list[int]:
        """Return the index of each of the trace's threads here; new ones are added."""
        keys = {thread.number: (thread.number, thread.name) for thread in trace.threads}
        for thread in trace.threads:
            key = keys[thread.number]
            if key not in self.indices:
                self.indices[key] = len(self.threads)
                self.threads.append(
                    _ComposedThread(
                        number=len(self.threads),
                        name=thread.name,
                        created_by=NONE,
                        created=self._move(thread.created),
                    )
                )
        for thread in trace.threads:
            creator = keys.get(thread.created_by)
            mapped = self.threads[self.indices[keys[thread.number]]]
            # Only earlier threads, so that none is its own offspring.
            if creator and mapped.created_by == NONE and self.indices[creator] < mapped.number:
                mapped.created_by = self.indices[creator]
        return [self.indices[keys[thread.number]] for thread in trace.threads]

    def _free_blocks(self, blocks: _LiveBlocks) -> None:
        for index in np.unique(blocks.owner).tolist():
            freed = blocks.number[blocks.owner == index]
            clock = np.full(len(freed), self.clock, np.int64)
            if self.threads[index].ended != NONE:
                self.threads[index].ended = self.clock
            self.threads[index].append(
                kind=np.full(len(freed), EventKind.FREE, np.uint8),
                time=clock,
                completed=clock,
                object=np.full(len(freed), NONE, np.int64),
                freed=freed,
            )

    def _add_objects(
        self,
        trace: Trace,
        fresh: NDArray[np.bool_],
        births: NDArray[np.int64],
        indices: list[int],
    ) -> None:
        numbers = [
            self.patterns.setdefault(pattern, len(self.patterns))
            for pattern in trace.touch_patterns
        ]
        objects = trace.objects
        blocks = _LiveBlocks(
            number=self.count + np.arange(int(np.count_nonzero(fresh))),
            size=objects.size[fresh],
            alignment=objects.alignment[fresh],
            owner=np.array(indices, np.int32)[objects.allocated_by[fresh]],
        )
        self.created.append(blocks)
        self.touch.append(np.array([*numbers, NONE], np.int32)[objects.touch[fresh]])
        self.alive = self.alive.join(blocks.select(np.argsort(births[fresh], kind="stable")))
        self.count += len(blocks.number)

    def build_trace(self, sources: Sequence[Trace]) -> Trace:
        """Return the composed trace."""
        threads = tuple(
            ThreadEvents(
                number=thread.number,
                name=thread.name,
                created_by=thread.created_by,
                created=thread.created,
                ended=thread.ended,
                **{name: np.concatenate(parts) for name, parts in thread.pieces.items()},
            )
            for thread in self.threads
        )
        nobody = np.full(self.count, NONE, np.int32)
        objects = Objects(
            size=np.concatenate([blocks.size for blocks in self.created]),
            alignment=np.concatenate([blocks.alignment for blocks in self.created]),
            touch=np.concatenate(self.touch),
            allocated_by=nobody,
            freed_by=nobody,
        )
        return number_by_thread(
            Trace(
                facts=_join_facts(sources, self.clock),
                threads=threads,
                objects=find_freed_by(threads, objects),
                touch_patterns=tuple(self.patterns),
                marks=tuple(self.marks),
                compiled=_join_compiled(sources, self.repetitions, self.leftovers),
            )
        )


def _split_population(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when each object is allocated, in ns, and those that are at time 0 by MALLOC, CALLOC
    or ALIGNED.
    """
    births = find_births(trace.threads, len(trace.objects.size))
    moved = np.zeros(len(births), bool)
    for thread in trace.threads:
        moved[thread.object[thread.kind == EventKind.REALLOC]] = True
    return births, np.flatnonzero((births == 0) & ~moved)


def _match_by_size(
    trace: Trace, population: NDArray[np.int64], alive: _LiveBlocks
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return places in the population and in ``alive`` of blocks that are alike, in the order of
    both.
    """
    objects = trace.objects
    sizes = np.concatenate([objects.size[population], alive.size])
    alignments = np.concatenate([objects.alignment[population], alive.alignment])
    rows = np.stack([sizes, alignments.astype(np.uint64)], axis=1)
    groups = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    first, second = groups[: len(population)], groups[len(population) :]
    most = max(len(groups), 1)
    keys = first * most + rank_in_groups(first), second * most + rank_in_groups(second)
    _, matched, heirs = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    return matched, heirs


def _join_facts(sources: Sequence[Trace], duration: int) -> RecordingFacts:
    facts = [source.facts for source in sources]
    notes = dict.fromkeys(note for fact in facts for note in fact.not_seen)
    return replace(
        facts[0],
        from_start=all(fact.from_start for fact in facts),
        dropped=sum({id(fact): fact.dropped for fact in facts}.values()),
        **_join_mallocs(facts),
        seconds=duration / 1e9,
        not_seen=tuple(notes),
    )


def _join_mallocs(facts: Sequence[RecordingFacts]) -> dict[str, Any]:
    """Return what facts say of the malloc if all say the same."""
    if len({(fact.allocator, fact.allocator_version, fact.settings) for fact in facts}) == 1:
        return {}
    if len({fact.allocator for fact in facts}) > 1:
        return {"allocator": "several", "allocator_version": "", "settings": None}
    return {"allocator_version": "", "settings": None}


def _join_compiled(
    sources: Sequence[Trace], repetitions: int, leftovers: Leftovers
) -> CompileFacts:
    compiled = [source.compiled for source in sources]
    # A trace counts once, however many stretches are taken from it.
    once = {id(facts): facts for facts in compiled}.values()
    named = vars(compiled[0]).keys() - {"resolution", "timed", "history"}
    counts = {name: sum(getattr(facts, name) for facts in once) for name in named}
    fate = "freed" if leftovers == "free" else "kept alive"
    composed = (
        f"composed of {repetitions} stretches; what one leaves alive and the next does not begin "
        f"with is {fate}"
    )
    history = dict.fromkeys(line for facts in compiled for line in facts.history)
    return replace(
        compiled[0],
        resolution=int(np.gcd.reduce([facts.resolution for facts in compiled])),
        timed=all(facts.timed for facts in compiled),
        **counts,
        history=(*history, composed),
    )
