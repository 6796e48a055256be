"""Time in malloc and free, from the probe's timed calls. Pure.

Elapsed time, so that what a call waits is in it. A call that takes longer than STALLED has waited
(for a lock, for the kernel's memory, for a CPU) and is no CPU of the allocator's: such calls are
counted apart.
"""

from collections import defaultdict
from dataclasses import dataclass

from dballoc.profile.heap.probe_snapshot import (
    FREE,
    MALLOC,
    Snapshot,
    TimedCalls,
    compute_bucket_start,
)

# Nanoseconds.
STALL_NANOSECONDS = 100_000


@dataclass(frozen=True, kw_only=True)
class SizeLatency:
    """Calls of one kind and size class, estimated; ``mean``, ``p50``, ``p99``, ``longest``:
    nanoseconds of those timed. ``sizes``: from, and up to but without, bytes.
    """

    operation: str
    sizes: tuple[int, int]
    calls: int
    timed: int
    mean: float
    p50: int
    p99: int
    longest: int


@dataclass(frozen=True, kw_only=True)
class LatencySummary:
    """``seconds`` in malloc and free, stalled calls left out, and their ``share`` of the process's
    CPU time, None without any; ``stalls`` and ``stalled_seconds``: estimates too. ``timed``: how
    many calls the estimates rest on.
    """

    seconds: float
    share: float | None
    stalls: int
    stalled_seconds: float
    timed: int


def summary(snapshot: Snapshot) -> LatencySummary:
    """Over all calls since the probe's sums were reset."""
    period = snapshot.period
    short = [t for t in snapshot.times if compute_bucket_start(t.bucket) < STALL_NANOSECONDS]
    long = [t for t in snapshot.times if compute_bucket_start(t.bucket) >= STALL_NANOSECONDS]
    seconds = sum(t.nanoseconds for t in short) * period / 1e9
    return LatencySummary(
        seconds=seconds,
        share=seconds / snapshot.cpu if snapshot.cpu > 0 and snapshot.times else None,
        stalls=sum(t.calls for t in long) * period,
        stalled_seconds=sum(t.nanoseconds for t in long) * period / 1e9,
        timed=sum(t.calls for t in snapshot.times),
    )


def rows(snapshot: Snapshot) -> list[SizeLatency]:
    """By operation and size class, malloc first, small first."""
    groups: dict[tuple[int, int], list[TimedCalls]] = defaultdict(list)
    for times in snapshot.times:
        groups[times.operation, times.size_class].append(times)
    sizes = []
    for (operation, size_class), group in sorted(groups.items()):
        calls = sum(t.calls for t in group)
        sizes.append(
            SizeLatency(
                operation={MALLOC: "malloc", FREE: "free"}.get(operation, "?"),
                sizes=(1 << size_class >> 1, 1 << size_class),
                calls=calls * snapshot.period,
                timed=calls,
                mean=sum(t.nanoseconds for t in group) / calls,
                p50=_find_quantile(group, 0.5),
                p99=_find_quantile(group, 0.99),
                longest=max(compute_bucket_start(t.bucket) for t in group),
            )
        )
    return sizes


def _find_quantile(group: list[TimedCalls], share: float) -> int:
    """The start of the bucket that it lies in: within a quarter of the truth."""
    rank = share * sum(t.calls for t in group)
    calls = 0
    for times in sorted(group, key=lambda t: t.bucket):
        calls += times.calls
        if calls >= rank:
            return compute_bucket_start(times.bucket)
    return 0
