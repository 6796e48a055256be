"""Which sizes a program asks for, how long they live, and what they make of the peak. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dballoc.trace.compilation.draw_touches import LARGE
from dballoc.trace.figures.live_curve import NEVER, find_deaths
from dballoc.trace.model import NONE, Trace
from dballoc.trace.trace_file.check_trace import find_births


@dataclass(frozen=True, kw_only=True)
class TouchedShare:
    """Large blocks, of 8 KiB and more: how many, their bytes, and those on touched pages."""

    blocks: int
    bytes: int
    touched: int


def count_touched_bytes(trace: Trace) -> NDArray[np.int64]:
    """Return the bytes of each object that are on touched pages."""
    sizes = trace.objects.size.astype(np.int64)
    page = trace.facts.page_size
    pages = np.zeros(len(trace.touch_patterns) + 1, np.int64)
    for number, runs in enumerate(trace.touch_patterns):
        # No block is larger; a trace may claim what cannot be multiplied.
        pages[number] = min(sum(count for _, count in runs), 2**40)
    touch = trace.objects.touch
    return np.where(touch == NONE, sizes, np.minimum(sizes, pages[touch] * page))


def compute_touched_share(trace: Trace) -> TouchedShare:
    """Return how much of the large blocks is touched."""
    large = trace.objects.size >= LARGE
    return TouchedShare(
        blocks=int(np.count_nonzero(large)),
        bytes=int(trace.objects.size[large].sum()),
        touched=int(count_touched_bytes(trace)[large].sum()),
    )


@dataclass(frozen=True, kw_only=True)
class SizeClass:
    """Blocks of ``smallest`` to ``largest`` bytes: how many were allocated and their bytes, and the
    same of those alive at the peak. Lifetimes in seconds, of those that were freed; None if none
    was.
    """

    smallest: int
    largest: int
    allocations: int
    bytes: int
    peak_blocks: int
    peak_bytes: int
    lifetime_p50: float | None
    lifetime_p99: float | None


@dataclass(frozen=True, kw_only=True)
class Lifetimes:
    """Of all blocks: seconds, None if none was freed; ``survivors`` were never freed, ``bytes`` of
    them.
    """

    p50: float | None
    p99: float | None
    longest: float | None
    survivors: int
    survivor_bytes: int


def compute_size_classes(trace: Trace, peak_time: int) -> tuple[SizeClass, ...]:
    """Return the classes that have blocks, by powers of two, the smallest first; ``peak_time`` in
    ns as the live curve has it.
    """
    sizes = trace.objects.size.astype(np.int64)
    births, deaths = find_births(trace.threads, len(sizes)), find_deaths(trace)
    # As the live curve orders the events of one time.
    at_peak = (births <= peak_time) & ((deaths > peak_time) | (births == peak_time))
    # The exponent of a size is exact: frexp rounds none that has less than 54 bits.
    exponents = np.frexp(np.maximum(sizes - 1, 0).astype(np.float64))[1]
    classes = []
    for exponent in np.unique(exponents).tolist():
        chosen = np.flatnonzero(exponents == exponent)
        freed = chosen[deaths[chosen] != NEVER]
        present = chosen[at_peak[chosen]]
        p50, p99 = _find_quantiles(deaths[freed] - births[freed])
        classes.append(
            SizeClass(
                smallest=2 ** (exponent - 1) + 1 if exponent else 0,
                largest=2**exponent,
                allocations=len(chosen),
                bytes=int(sizes[chosen].sum()),
                peak_blocks=len(present),
                peak_bytes=int(sizes[present].sum()),
                lifetime_p50=p50,
                lifetime_p99=p99,
            )
        )
    return tuple(classes)


def compute_lifetimes(trace: Trace) -> Lifetimes:
    """Return how long blocks live."""
    sizes = trace.objects.size
    births, deaths = find_births(trace.threads, len(sizes)), find_deaths(trace)
    freed = deaths != NEVER
    lifetimes = deaths[freed] - births[freed]
    p50, p99 = _find_quantiles(lifetimes)
    return Lifetimes(
        p50=p50,
        p99=p99,
        longest=float(lifetimes.max()) / 1e9 if len(lifetimes) else None,
        survivors=int(np.count_nonzero(~freed)),
        survivor_bytes=int(sizes[~freed].sum()),
    )


def _find_quantiles(lifetimes: NDArray[np.int64]) -> tuple[float | None, float | None]:
    if not len(lifetimes):
        return None, None
    low, high = np.quantile(lifetimes, [0.5, 0.99])
    return float(low) / 1e9, float(high) / 1e9
