"""Traces to replay: made at random from a seed, with everything that a trace can hold."""

import random
from dataclasses import dataclass, field

import numpy as np

from dballoc.trace.model import (
    NONE,
    EventKind,
    Mark,
    Objects,
    RecordingFacts,
    ThreadEvents,
    Trace,
)

FACTS = RecordingFacts(
    from_start=True,
    dropped=0,
    ended_by="exit",
    program="example",
    allocator="glibc",
    page_size=4096,
    seconds=1.0,
)
PATTERNS = (((0, 3),), ((0, 1), (40, 2)), ())


@dataclass
class Script:
    """One thread's events while they are written down: (kind, time, completed, object, freed)."""

    created_by: int = NONE
    created: int = NONE
    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    ended: int = NONE


def make_trace(
    threads: int = 4,
    events: int = 2000,
    seed: int = 1,
    *,
    handed: float = 0.2,
    step: int = 2000,
    live: int = 200,
    births: bool = True,
) -> Trace:
    """``threads`` threads with ``events`` events in all; that share of the frees is of another
    thread's block; ``step`` ns between events on average; about ``live`` blocks alive.
    """
    rng = random.Random(seed)
    scripts = [Script()]
    size: list[int] = []
    alignment: list[int] = []
    touch: list[int] = []
    allocated_by: list[int] = []
    freed_by: list[int] = []
    alive: list[list[int]] = [[] for _ in range(threads)]
    time = 0

    def take(thread: int) -> int | None:
        owner = thread
        if rng.random() < handed:
            owner = rng.randrange(len(scripts))
        pool = alive[owner]
        if not pool:
            return None
        at = rng.randrange(len(pool))
        pool[at], pool[-1] = pool[-1], pool[at]
        freed_by[pool[-1]] = thread
        return pool.pop()

    def allocate(thread: int, kind: EventKind) -> int:
        size.append(
            rng.choice((0, 1, 16, 24, 100, 500, 3000, 5000, 70_000, 300_000))
            if rng.random() < 0.5
            else rng.randrange(1, 2000)
        )
        alignment.append(rng.choice((16, 64, 4096)) if kind is EventKind.ALIGNED else 0)
        touch.append(rng.randrange(len(PATTERNS)) if size[-1] > 50_000 else NONE)
        allocated_by.append(thread)
        freed_by.append(NONE)
        alive[thread].append(len(size) - 1)
        return len(size) - 1

    for _ in range(events):
        time += rng.randrange(step * 2)
        if len(scripts) < threads and (not births or rng.random() < 0.05):
            creator = rng.randrange(len(scripts)) if births else NONE
            # Of every other thread it is known when it was created.
            scripts.append(Script(creator, time if len(scripts) % 2 else NONE))
        running = [i for i, each in enumerate(scripts) if each.ended == NONE]
        thread = rng.choice(running)
        script = scripts[thread]
        full = sum(map(len, alive)) >= live
        choice = rng.random()
        if choice < (0.6 if full else 0.3):
            if (freed := take(thread)) is not None:
                kind = rng.choice((EventKind.FREE, EventKind.FREE, EventKind.FREE_SIZED))
                script.rows.append((kind, time, time, NONE, freed))
        elif choice < 0.7 and (freed := take(thread)) is not None:
            later = time + rng.randrange(10)
            new = allocate(thread, EventKind.REALLOC)
            script.rows.append((EventKind.REALLOC, time, later, new, freed))
            time = later
        else:
            kind = rng.choice(
                (EventKind.MALLOC,) * 6 + (EventKind.CALLOC, EventKind.ALIGNED, EventKind.REALLOC)
            )
            script.rows.append((kind, time, time, allocate(thread, kind), NONE))
        if births and thread and rng.random() < threads / events:
            script.ended = time
    return Trace(
        facts=FACTS,
        threads=tuple(_events(i, each) for i, each in enumerate(scripts)),
        objects=Objects(
            size=np.array(size, np.uint64),
            alignment=np.array(alignment, np.uint32),
            allocated_by=np.array(allocated_by, np.int32),
            freed_by=np.array(freed_by, np.int32),
            touch=np.array(touch, np.int32),
        ),
        touch_patterns=PATTERNS,
        marks=(
            Mark(time=time // 2, name="half", truth={}),
            Mark(time=time, name="end", truth={}),
        ),
    )


def _events(number: int, script: Script) -> ThreadEvents:
    table = np.array(script.rows, np.int64).reshape(-1, 5)
    return ThreadEvents(
        number=number,
        name=f"thread {number}",
        created_by=script.created_by,
        created=script.created,
        ended=script.ended,
        kind=table[:, 0].astype(np.uint8),
        time=table[:, 1].copy(),
        completed=table[:, 2].copy(),
        object=table[:, 3].copy(),
        freed=table[:, 4].copy(),
    )
