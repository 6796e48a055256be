"""Everything that ``dballoc trace info`` tells of a trace. Pure."""

from dataclasses import dataclass

import numpy as np

from dballoc.trace.figures.handover import Handovers, compute_handovers
from dballoc.trace.figures.live_curve import LiveCurve, compute_live_curve
from dballoc.trace.figures.size_classes import (
    Lifetimes,
    SizeClass,
    compute_lifetimes,
    compute_size_classes,
)
from dballoc.trace.figures.touched_share import TouchedShare, compute_touched_share
from dballoc.trace.model import EventKind, Trace


@dataclass(frozen=True, kw_only=True)
class TraceSummary:
    """``events`` and how many of each kind; ``seconds`` from its begin to its last event."""

    events: int
    kinds: dict[str, int]
    seconds: float
    curve: LiveCurve
    sizes: tuple[SizeClass, ...]
    lifetimes: Lifetimes
    handovers: Handovers
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
