"""Estimate one figure a block from the slices of a duet. Pure, and without data frames.

Both servers are loaded at the same time, each on one half of the CPUs, and in the next slice on the
other half. Three estimates of ln(partner's CPU per transaction ÷ baseline's) do not depend on how
the halves differ. All change sign when the servers change names, so that neither of two identical
ones is favoured:

paired       the mean over pairs of swapped slices of what both servers showed at the same moment.
             What disturbs both at once cancels, and so does what slows one half down for longer
             than a pair.
middle       the interquartile mean over all pairs of neighbouring slices. The quarter at either
             end, in which a disturbance of one half began or ended, has no weight. Of 204 blocks
             of one allocator beside itself on a restless machine it scattered least of the three
             (docs/evidence.md).
undisturbed  for each half, the partner's least disturbed pieces less the baseline's on the same
             half: the cheapest fifth of all pieces of a block. It is the better one where other
             tenants of the machine slow one CPU down for seconds now and then without any counter
             showing it: that can only add to a cost, never take from it.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

Estimate = Literal["middle", "paired", "undisturbed"]

# The share of a server's pieces on a half that counts as undisturbed.
CHEAPEST = 0.2


class Piece(NamedTuple):
    """A fraction of a second of one server: its ``slice``, the ``half`` of the CPUs it ran on, CPU
    seconds, transactions.
    """

    slice: int
    half: int
    cpu: float
    events: float


def compute_block_log(
    estimate: Estimate, baseline: Sequence[Piece], partner: Sequence[Piece]
) -> float | None:
    """Return a block's ln ratio; None where there is too little for one: less than a pair of
    slices, or a server that was not on both halves.
    """
    return _ESTIMATES[estimate](baseline, partner)


def estimate_paired(baseline: Sequence[Piece], partner: Sequence[Piece]) -> float | None:
    """Estimate as the module describes; half a pair of slices is left out."""
    pairs = _compute_pair_means(baseline, partner)
    return statistics.fmean(pairs) if pairs else None


def estimate_middle(baseline: Sequence[Piece], partner: Sequence[Piece]) -> float | None:
    """Estimate as the module describes; of three means or fewer, the mean of all."""
    means = sorted(average_neighbours(baseline, partner))
    end = len(means) // 4
    return statistics.fmean(means[end : len(means) - end]) if means else None


def average_neighbours(baseline: Sequence[Piece], partner: Sequence[Piece]) -> list[float]:
    """Return the mean ln ratio of every slice and the next; the halves are swapped between them."""
    logs = _compute_slice_logs(baseline, partner)
    return [(logs[n] + logs[n + 1]) / 2 for n in sorted(logs) if n + 1 in logs]


def _compute_pair_means(baseline: Sequence[Piece], partner: Sequence[Piece]) -> list[float]:
    logs = _compute_slice_logs(baseline, partner)
    return [(logs[n] + logs[n + 1]) / 2 for n in sorted(logs) if n % 2 == 0 and n + 1 in logs]


def _compute_slice_logs(baseline: Sequence[Piece], partner: Sequence[Piece]) -> dict[int, float]:
    """Return the ln ratio by slice."""
    first, second = _log_costs_by_slice(baseline), _log_costs_by_slice(partner)
    return {n: second[n] - first[n] for n in first.keys() & second.keys()}


def estimate_undisturbed(baseline: Sequence[Piece], partner: Sequence[Piece]) -> float | None:
    """Estimate as the module describes."""
    first, second = _log_costs_by_half(baseline), _log_costs_by_half(partner)
    if len(first.keys() & second.keys()) < 2:
        return None
    return statistics.fmean(
        _average_cheapest(second[half]) - _average_cheapest(first[half]) for half in first
    )


def _average_cheapest(logs: Sequence[float]) -> float:
    """Return the mean of the lowest fifth, of at least one."""
    return statistics.fmean(sorted(logs)[: max(1, round(CHEAPEST * len(logs)))])


_ESTIMATES: dict[Estimate, Callable[[Sequence[Piece], Sequence[Piece]], float | None]] = {
    "middle": estimate_middle,
    "paired": estimate_paired,
    "undisturbed": estimate_undisturbed,
}


def _select_working(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces in which anything was done."""
    return [p for p in pieces if p.cpu > 0 and p.events > 0]


def _log_costs_by_slice(pieces: Sequence[Piece]) -> dict[int, float]:
    sums: dict[int, tuple[float, float]] = {}
    for piece in _select_working(pieces):
        cpu, events = sums.get(piece.slice, (0.0, 0.0))
        sums[piece.slice] = cpu + piece.cpu, events + piece.events
    return {n: math.log(cpu / events) for n, (cpu, events) in sums.items()}


def _log_costs_by_half(pieces: Sequence[Piece]) -> dict[int, list[float]]:
    logs = defaultdict(list)
    for piece in _select_working(pieces):
        logs[piece.half].append(math.log(piece.cpu / piece.events))
    return logs
