"""Compute the figures of duets from their slices, on data frames. Pure."""

from collections import defaultdict
from dataclasses import dataclass, field

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.statistics.duet_estimates import Estimate, Piece, compute_block_log


def read_declared_estimate(campaign: Campaign) -> Estimate:
    """Read which estimate the campaign declared before its first block."""
    estimate: Estimate = campaign.duet_fact["estimate"]
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
