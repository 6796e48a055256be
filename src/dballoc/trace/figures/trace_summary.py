"""Everything that ``dballoc trace info`` tells of a trace. Pure."""

from dataclasses import dataclass

import numpy as np

from dballoc.trace.figures.live_curve import LiveCurve, compute_live_curve
from dballoc.trace.figures.size_classes import (
    Lifetimes,
    SizeClass,
    TouchedShare,
    compute_lifetimes,
    compute_size_classes,
    compute_touched_share,
)
from dballoc.trace.model import NONE, EventKind, Trace


@dataclass(frozen=True, kw_only=True)
class _Handover:
    """Blocks that went from one thread to another, by the threads' indices."""

    allocated_by: int
    freed_by: int
    blocks: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class _Handovers:
    """``foreign`` of ``frees`` free another thread's block; ``bytes`` of those; the pairs of
    threads, most blocks first.
    """

    frees: int
    foreign: int
    bytes: int
    pairs: tuple[_Handover, ...]


def compute_handovers(trace: Trace) -> _Handovers:
    """Return who frees whose blocks."""
    objects, threads = trace.objects, len(trace.threads)
    freed = objects.freed_by != NONE
    foreign = np.flatnonzero(freed & (objects.freed_by != objects.allocated_by))
    keys = objects.allocated_by[foreign].astype(np.int64) * threads + objects.freed_by[foreign]
    pairs, inverse, blocks = np.unique(keys, return_inverse=True, return_counts=True)
    amounts = np.zeros(len(pairs), np.int64)
    np.add.at(amounts, inverse, objects.size[foreign].astype(np.int64))
    order = np.argsort(-blocks, kind="stable")
    return _Handovers(
        frees=int(np.count_nonzero(freed)),
        foreign=len(foreign),
        bytes=int(amounts.sum()),
        pairs=tuple(
            _Handover(
                allocated_by=int(pairs[i]) // threads,
                freed_by=int(pairs[i]) % threads,
                blocks=int(blocks[i]),
                bytes=int(amounts[i]),
            )
            for i in order
        ),
    )


@dataclass(frozen=True, kw_only=True)
class TraceSummary:
    """``events`` and how many of each kind; ``seconds`` from its begin to its last event."""

    events: int
    kinds: dict[str, int]
    seconds: float
    curve: LiveCurve
    sizes: tuple[SizeClass, ...]
    lifetimes: Lifetimes
    handovers: _Handovers
    touched: TouchedShare


def summarise_trace(trace: Trace) -> TraceSummary:
    """Return the figures of a trace."""
    kinds = sum(
        (np.bincount(thread.kind, minlength=max(EventKind) + 1) for thread in trace.threads),
        np.zeros(max(EventKind) + 1, np.int64),
    )
    ends = [int(thread.completed[-1]) for thread in trace.threads if len(thread.completed)]
    curve = compute_live_curve(trace)
    return TraceSummary(
        events=int(kinds.sum()),
        kinds={kind.name.lower(): int(kinds[kind]) for kind in EventKind},
        seconds=max(ends, default=0) / 1e9,
        curve=curve,
        sizes=compute_size_classes(trace, curve.peak_time),
        lifetimes=compute_lifetimes(trace),
        handovers=compute_handovers(trace),
        touched=compute_touched_share(trace),
    )
