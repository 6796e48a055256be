"""Find where throughput peaks and where it collapses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

# Throughput below this share of the best at a lower level is a collapse.
COLLAPSE_SHARE = 0.6


@dataclass(frozen=True)
class Shape:
    """A variant's curve over levels. ``collapse_threads``: the first collapsed level,
    ``collapse_share``: its share of the best level before it; None where nothing collapses.
    """

    peak_threads: int
    peak: float
    collapse_threads: int | None
    collapse_share: float | None


def find_peak_and_collapse(throughput: Mapping[int, float]) -> Shape:
    """Find peak and collapse in throughput by threads. ValueError when it is empty."""
    if not throughput:
        raise ValueError("no level")
    levels = sorted(throughput)
    best = max(levels, key=lambda n: throughput[n])
    so_far = 0.0
    for threads in levels:
        if so_far and throughput[threads] < COLLAPSE_SHARE * so_far:
            return Shape(best, throughput[best], threads, throughput[threads] / so_far)
        so_far = max(so_far, throughput[threads])
    return Shape(best, throughput[best], None, None)


def find_collapse(throughput: Mapping[int, float]) -> tuple[int, int] | None:
    """Return the level before a collapse and the first collapsed level; None where there is no
    collapse. ValueError when there are no levels.
    """
    fell = find_peak_and_collapse(throughput).collapse_threads
    return None if fell is None else (max(n for n in throughput if n < fell), fell)
