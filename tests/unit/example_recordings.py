"""Recordings made by a small program of threads that allocate, free and hand over blocks of a real
allocator's kind: freed addresses are used again at once, by any thread.
"""

from dataclasses import dataclass, field
from random import Random

import numpy as np

from dballoc.trace.model import (
    CALL_TYPES,
    NONE,
    EventKind,
    Mark,
    Recording,
    RecordingFacts,
    ThreadCalls,
    TouchSample,
)

FACTS = RecordingFacts(
    from_start=True,
    dropped=0,
    ended_by="exit",
    program="/usr/sbin/mariadbd",
    allocator="glibc",
    page_size=4096,
    seconds=1.0,
)


def make_thread(number: int, rows: list[tuple[int, ...]], name: str = "") -> ThreadCalls:
    """A thread of rows (kind, before, after, address, old, size[, alignment[, site]])."""
    filled = [row + (0,) * (8 - len(row)) for row in rows]
    columns = {
        column: np.array([row[i] for row in filled], dtype)
        for i, (column, dtype) in enumerate(CALL_TYPES.items())
    }
    return ThreadCalls(
        number=number,
        tid=1000 + number,
        name=name or f"thread-{number}",
        created_by=0 if number else NONE,
        # Of every other one it is known.
        created=rows[0][1] // 2 if rows and number % 2 else NONE,
        **columns,
    )


def make_recording(
    *threads: list[tuple[int, ...]],
    touches: tuple[TouchSample, ...] = (),
    marks: tuple[Mark, ...] = (),
) -> Recording:
    return Recording(
        facts=FACTS,
        threads=tuple(make_thread(i, rows) for i, rows in enumerate(threads)),
        touches=touches,
        marks=marks,
    )


@dataclass
class Simulation:
    """``recording``, and what is true of it: ``live`` has (time, bytes, blocks) after every call,
    ``freed_by`` for each allocation in (thread, number) who freed it.
    """

    recording: Recording
    live: list[tuple[int, int, int]] = field(default_factory=list)
    freed_by: dict[tuple[int, int], int] = field(default_factory=dict)
    alive: dict[int, tuple[int, int, int]] = field(default_factory=dict)


def simulate(
    seed: int = 0,
    threads: int = 3,
    calls: int = 300,
    step: int = 40,
    sizes: tuple[int, ...] = (8, 24, 100, 1000, 5000, 70_000, 300_000),
) -> Simulation:
    """Run ``calls`` calls of ``threads`` threads, one at a time; the clock goes on by 0 to ``step``
    ns between two stamps, so that stamps may be equal.
    """
    random = Random(seed)
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(threads)]
    allocations = [0] * threads
    alive: dict[int, tuple[int, int, int]] = {}  # address: size, thread, number
    unused: dict[int, list[int]] = {}
    clock = 0
    top = 2**30
    result = Simulation(recording=make_recording())
    total = 0

    def take(size: int) -> int:
        nonlocal top
        free = unused.setdefault((size + 31) // 32, [])
        if free and random.random() < 0.9:
            return free.pop()
        top += (size + 31) // 32 * 32
        return top

    def give(address: int) -> None:
        nonlocal total
        size, owner, number = alive.pop(address)
        unused.setdefault((size + 31) // 32, []).append(address)
        result.freed_by[owner, number] = thread
        total -= size

    for _ in range(calls):
        thread = random.randrange(threads)
        clock += random.randint(0, step)
        what = random.random()
        if alive and what < 0.45:
            address = random.choice(list(alive))
            kind = EventKind.FREE_SIZED if random.random() < 0.2 else EventKind.FREE
            rows[thread].append((kind, clock, clock, address, 0, 0))
            give(address)
            result.live.append((clock, total, len(alive)))
            continue
        kind = random.choice([EventKind.MALLOC, EventKind.CALLOC, EventKind.ALIGNED])
        before = clock
        old = 0
        if what > 0.9:
            kind = EventKind.REALLOC
            if alive and what > 0.92:
                old = random.choice(list(alive))
                give(old)
                result.live.append((clock, total, len(alive)))
            clock += random.randint(0, step)
        size = random.choice(sizes) + random.randrange(3)
        address = take(size)
        alive[address] = (size, thread, allocations[thread])
        allocations[thread] += 1
        total += size
        stamp = before if kind == EventKind.REALLOC else clock
        alignment = 64 if kind == EventKind.ALIGNED else 0
        site = random.randrange(1, 4) if size >= 32768 else 0
        rows[thread].append((kind, stamp, clock, address, old, size, alignment, site))
        result.live.append((clock, total, len(alive)))
    touches = tuple(
        TouchSample(size=size, site=site, runs=((0, 1), (4, 2)))
        for size in sizes
        for site in (1, 2)
        if size >= 32768
    )
    marks = (Mark(time=0, name="begin", truth={}), Mark(time=clock, name="end", truth={"rss": 1}))
    result.recording = make_recording(*rows, touches=touches, marks=marks)
    result.alive = alive
    return result
