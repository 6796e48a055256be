"""What tests compare traces with: a brute-force live curve, equality."""

import numpy as np

from dballoc.trace.model import NONE, Trace


def assert_equal_traces(first: Trace, second: Trace) -> None:
    assert first.facts == second.facts
    assert first.compiled == second.compiled
    assert first.touch_patterns == second.touch_patterns
    assert first.marks == second.marks
    assert len(first.threads) == len(second.threads)
    pairs = [*zip(first.threads, second.threads, strict=True), (first.objects, second.objects)]
    for one, other in pairs:
        for name, value in vars(one).items():
            if isinstance(value, np.ndarray):
                assert value.dtype == getattr(other, name).dtype, name
                assert np.array_equal(value, getattr(other, name)), name
            else:
                assert value == getattr(other, name), name


def count_events(trace: Trace) -> int:
    return sum(len(thread.kind) for thread in trace.threads)


def brute_force_curve(trace: Trace) -> tuple[dict[int, tuple[int, int]], int]:
    """(bytes, blocks) alive after each time, and the peak. At one time frees come first, but for
    those of blocks that were allocated at it, which come last.
    """
    births = {
        int(thread.object[i]): int(thread.completed[i])
        for thread in trace.threads
        for i in range(len(thread.kind))
        if thread.object[i] != NONE
    }
    steps = [(time, 1, number) for number, time in births.items()]
    for thread in trace.threads:
        for time, freed in zip(thread.time.tolist(), thread.freed.tolist(), strict=True):
            if freed != NONE:
                steps.append((time, 2 if births[freed] == time else 0, freed))
    alive: dict[int, int] = {}
    curve: dict[int, tuple[int, int]] = {}
    peak = total = 0
    for time, rank, number in sorted(steps):
        if rank != 1:
            total -= alive.pop(number)
        else:
            alive[number] = int(trace.objects.size[number])
            total += alive[number]
        peak = max(peak, total)
        curve[time] = (total, len(alive))
    return curve, peak
