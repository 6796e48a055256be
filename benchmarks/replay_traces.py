"""Large traces for the replay's benchmarks, made in numpy: objects with a thread and a time of
their birth and of their end.
"""

import numpy as np

from dballoc.trace.model import NONE, EventKind, Objects, RecordingFacts, ThreadEvents, Trace

# ns between two calls of a thread, on average: a server under load.
STEP = 4000


def make_server_like_trace(
    threads: int, objects: int, handed: float, seed: int = 1, largest: int = 2048
) -> Trace:
    """``objects`` blocks over that many threads, each allocated and freed; that share of them by
    another thread. Sizes are log-uniform from 16 to ``largest`` bytes; lifetimes are exponential,
    20 calls of a thread on average, a twentieth of them a hundred times as long.
    """
    rng = np.random.default_rng(seed)
    allocated_by = rng.integers(0, threads, objects).astype(np.int32)
    freed_by = np.where(
        rng.random(objects) < handed, rng.integers(0, threads, objects), allocated_by
    ).astype(np.int32)
    # All threads together make a call every STEP / threads ns; two calls an object.
    born = np.cumsum(rng.exponential(2 * STEP / threads, objects)).astype(np.int64)
    life = rng.exponential(20 * STEP, objects) * np.where(rng.random(objects) < 0.05, 100, 1)
    freed = born + 1 + life.astype(np.int64)
    size = np.exp(rng.uniform(np.log(16), np.log(largest), objects)).astype(np.uint64)
    # Numbered thread by thread, as in every trace.
    order = np.argsort(allocated_by, kind="stable")
    allocated_by, freed_by, size = allocated_by[order], freed_by[order], size[order]
    born, freed = born[order], freed[order]
    return Trace(
        facts=RecordingFacts(
            from_start=True,
            dropped=0,
            ended_by="exit",
            program="made",
            allocator="none",
            page_size=4096,
            seconds=float(freed.max()) / 1e9,
        ),
        threads=tuple(
            _make_thread(number, allocated_by == number, freed_by == number, born, freed)
            for number in range(threads)
        ),
        objects=Objects(
            size=size,
            alignment=np.zeros(objects, np.uint32),
            allocated_by=allocated_by,
            freed_by=freed_by,
            touch=np.full(objects, NONE, np.int32),
        ),
        touch_patterns=(),
        marks=(),
    )


def _make_thread(
    number: int,
    allocates: np.ndarray,
    frees: np.ndarray,
    born: np.ndarray,
    freed: np.ndarray,
) -> ThreadEvents:
    new, old = np.flatnonzero(allocates), np.flatnonzero(frees)
    time = np.concatenate((born[new], freed[old]))
    order = np.argsort(time, kind="stable")
    time = time[order]
    return ThreadEvents(
        number=number,
        name=f"thread {number}",
        created_by=NONE if number == 0 else 0,
        kind=np.repeat([EventKind.MALLOC, EventKind.FREE], [len(new), len(old)])[order].astype(
            np.uint8
        ),
        time=time,
        completed=time,
        object=np.concatenate((new, np.full(len(old), NONE)))[order],
        freed=np.concatenate((np.full(len(new), NONE), old))[order],
    )
