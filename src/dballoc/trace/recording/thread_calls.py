"""Make calls of records: what belongs together becomes one call, stamps become times."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.model import CallColumns, EventKind, TouchSample
from dballoc.trace.recording.event_records import (
    ALIGNMENT,
    REALLOC_FROM,
    RUN,
    SITE,
    TOUCHED,
    EventRecords,
)
from dballoc.trace.recording.stamp_times import StampTimes

# Runs of pages of one block, as many as the recorder writes.
_MOST_RUNS = 128
_MOST_PAGES = 2**40


@dataclass(frozen=True, kw_only=True)
class RecordedCalls(CallColumns):
    """Calls in the order of their buffers; ``buffer`` is the index of the call's buffer."""

    buffer: NDArray[np.int64]


def gather_calls(records: EventRecords, times: StampTimes) -> RecordedCalls:
    """Return the calls among records; what belongs to the next call goes into its fields."""
    kinds = records.kind
    is_call = kinds <= EventKind.FREE_SIZED
    chosen = np.flatnonzero(is_call)
    after = times.to_ns(records.stamp[chosen])
    count = len(chosen)
    calls = RecordedCalls(
        buffer=records.buffer[chosen],
        kind=kinds[chosen],
        before=after.copy(),
        after=after,
        address=records.number[chosen],
        old=np.zeros(count, np.uint64),
        size=records.size[chosen],
        alignment=np.zeros(count, np.uint32),
        site=np.zeros(count, np.uint32),
    )
    _fill(records, calls, chosen, ALIGNMENT, calls.alignment)
    _fill(records, calls, chosen, SITE, calls.site)
    sources, targets = _match(records, calls, chosen, REALLOC_FROM)
    is_whole = calls.kind[targets] == EventKind.REALLOC
    sources, targets = sources[is_whole], targets[is_whole]
    calls.old[targets] = records.number[sources]
    calls.before[targets] = np.minimum(times.to_ns(records.stamp[sources]), calls.after[targets])
    return calls


def _match(
    records: EventRecords, calls: RecordedCalls, chosen: NDArray[np.int64], kind: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the records of a kind, and the call in the same buffer that follows each."""
    sources = np.flatnonzero(records.kind == kind)
    targets = np.searchsorted(chosen, sources)
    is_there = targets < len(chosen)
    sources, targets = sources[is_there], targets[is_there]
    is_same = records.buffer[sources] == calls.buffer[targets]
    return sources[is_same], targets[is_same]


def _fill(
    records: EventRecords,
    calls: RecordedCalls,
    chosen: NDArray[np.int64],
    kind: int,
    column: NDArray[np.uint32],
) -> None:
    sources, targets = _match(records, calls, chosen, kind)
    column[targets] = np.minimum(records.size[sources], 2**32 - 1).astype(np.uint32)


def gather_touches(records: EventRecords, most: int) -> list[TouchSample]:
    """Return the touched pages of blocks among records, of ``most`` blocks at most."""
    heads = np.flatnonzero(records.kind == TOUCHED)[: max(most, 0)]
    runs = np.flatnonzero(records.kind == RUN)
    samples = []
    for head in heads.tolist():
        first = int(np.searchsorted(runs, head))
        pages = 0
        pairs: list[tuple[int, int]] = []
        for index in runs[first : first + _MOST_RUNS].tolist():
            if index != head + 1 + len(pairs):
                break
            pages += int(records.number[index])
            count = int(records.size[index])
            if not count or pages + count > _MOST_PAGES:
                break
            pairs.append((pages, count))
            pages += count
        site = min(int(records.number[head]), 2**32 - 1)
        samples.append(
            TouchSample(
                size=int(records.size[head]),
                site=site,
                runs=tuple(pairs),
                rarity=int(records.flag[head]),
            )
        )
    return samples
