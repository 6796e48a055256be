"""Time in malloc and free, from the probe's timed calls. Pure.

It is elapsed time, which includes waits. A call that takes longer than STALL_NANOSECONDS has waited
(for a lock, for memory from the kernel, for a CPU), so its time is not CPU time of the allocator;
such calls are counted apart.
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

# A call that takes longer has stalled.
STALL_NANOSECONDS = 100_000


@dataclass(frozen=True, kw_only=True)
class SizeLatency:
    """The ``calls`` of one kind and size class, estimated from those ``timed``, whose ``mean``,
    ``p50``, ``p99`` and ``longest`` time are nanoseconds. ``sizes``: the least bytes of the class,
    and those of the next.
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
    """Estimates over all calls. ``seconds`` in malloc and free without stalled calls, and their
    ``share`` of the process's CPU time, None if that is unknown; ``stalls``: stalled calls, and the
    ``stalled_seconds`` in them; ``timed``: how many calls the estimates rest on.
    """

    seconds: float
    share: float | None
    stalls: int
    stalled_seconds: float
    timed: int


def summarize_calls(snapshot: Snapshot) -> LatencySummary:
    """Sum up all calls since the probe's sums were reset."""
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


def summarize_by_size(snapshot: Snapshot) -> list[SizeLatency]:
    """Return the calls by operation and size class, malloc first, small sizes first."""
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
    """Return the start of the bucket with that quantile, nanoseconds: at most a fifth too low."""
    rank = share * sum(t.calls for t in group)
    calls = 0
    for times in sorted(group, key=lambda t: t.bucket):
        calls += times.calls
        if calls >= rank:
            return compute_bucket_start(times.bucket)
    return 0
