"""Compute one figure a block from the slices of a duet. Pure.

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

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import polars as pl

from dballoc.analysis.campaign_tables import Campaign

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


def read_declared_estimate(campaign: Campaign) -> Estimate:
    """Read which estimate the campaign declared before its first block."""
    estimate: Estimate = json.loads(campaign.facts["duet"])["estimate"]
    return estimate


def compute_block_logs(
    campaign: Campaign,
    estimate: Estimate | None = None,
    measure: str = "cpu",
    workload: str | None = None,
) -> pl.DataFrame:
    """Return one row a duet: block, variant, role ("A2" for the baseline beside itself), workload,
    ``log`` (ln partner ÷ baseline). ``estimate``: another than the declared one; ``measure``: "cpu"
    per transaction, or "seconds" per transaction; ``workload``: only this one. Only duets whose two
    servers both ended well count, in the attempt that counts.
    """
    estimate = estimate or read_declared_estimate(campaign)
    block_rows = []
    for (block, _, name), duet in collect_pieces(campaign, measure, workload).items():
        value = compute_block_log(estimate, duet.baseline, duet.partner)
        if value is not None:
            block_rows.append((block, duet.variant, duet.role, name, value))
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "block": pl.Int64,
        "variant": pl.String,
        "role": pl.String,
        "workload": pl.String,
        "log": pl.Float64,
    }
    return pl.DataFrame(block_rows, schema=schema, orient="row").sort(
        "workload", "block", "variant", "role"
    )


@dataclass
class DuetPieces:
    """The pieces of both servers of a duet; ``variant`` and ``role`` are the partner's."""

    baseline: list[Piece] = field(default_factory=list)
    partner: list[Piece] = field(default_factory=list)
    variant: str = ""
    role: str = ""


def collect_pieces(
    campaign: Campaign, measure: str = "cpu", workload: str | None = None
) -> dict[tuple[int, int, str], DuetPieces]:
    """Return the pieces by (block, position, workload)."""
    slices = campaign.slice
    if workload is not None:
        slices = slices.filter(pl.col("workload") == workload)
    good = campaign.duet.filter(pl.col("counted") & (pl.col("outcome") == "ok"))
    rows = slices.join(
        good.select("trial", "block", "position", "variant", "role"), on="trial", how="inner"
    )
    of_duet = ["block", "position", "workload", "variant", "role"]
    of_piece = ["slice", "half", measure, "events"]
    duets: dict[tuple[int, int, str], DuetPieces] = defaultdict(DuetPieces)
    for block, position, name, variant, role, *piece in rows.select(of_duet + of_piece).iter_rows():
        duet = duets[block, position, name]
        if role == "A1":
            duet.baseline.append(Piece(*piece))
        else:
            duet.partner.append(Piece(*piece))
            duet.variant, duet.role = variant, role
    return duets


def compute_absolute_figures(campaign: Campaign) -> pl.DataFrame:
    """Return one row a workload and variant: ``cpu`` microseconds per transaction and ``tps``,
    means over all its slices that count; for the baseline over all duets. ``cpu`` is null where no
    transaction ended in them.
    """
    good = campaign.duet.filter(pl.col("counted") & (pl.col("outcome") == "ok"))
    return (
        campaign.slice.join(good.select("trial", "variant"), on="trial", how="inner")
        .group_by("workload", "variant")
        .agg(
            cpu=pl.when(pl.col("events").sum() > 0).then(
                pl.col("cpu").sum() / pl.col("events").sum() * 1e6
            ),
            tps=pl.col("events").sum() / pl.col("seconds").sum(),
        )
        .sort("workload", "variant")
    )
