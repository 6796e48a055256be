"""From the slices of a duet to one figure a block. Pure.

A slice gives ln(partner's CPU per transaction) - ln(baseline's), both loaded at the same time. Two slices with the halves
of the CPUs swapped make a pair, whose mean is free of the halves' difference. A block's value is the mean of its pairs.
"""

import math
from collections.abc import Mapping, Sequence

import polars as pl

from dballoc.analysis.campaign import Campaign

# CPU seconds and transactions of one server in one slice.
Cost = tuple[float, float]


def slice_logs(baseline: Mapping[int, Cost], partner: Mapping[int, Cost]) -> dict[int, float]:
    """Ln ratio of CPU per transaction by slice; one that either lacks, or in which nothing was done, is left out."""
    return {
        n: math.log(partner[n][0] / partner[n][1]) - math.log(baseline[n][0] / baseline[n][1])
        for n in sorted(baseline.keys() & partner.keys())
        if all(cost > 0 and events > 0 for cost, events in (baseline[n], partner[n]))
    }


def pair_logs(slices: Mapping[int, float]) -> list[float]:
    """The mean of slices 0 and 1, of 2 and 3, …; half a pair is left out."""
    return [(slices[n] + slices[n + 1]) / 2 for n in sorted(slices) if n % 2 == 0 and n + 1 in slices]


def block_log(baseline: Mapping[int, Cost], partner: Mapping[int, Cost]) -> float | None:
    """A block's value from both servers' slices; None without a whole pair."""
    pairs = pair_logs(slice_logs(baseline, partner))
    return math.fsum(pairs) / len(pairs) if pairs else None


def costs(rows: Sequence[Mapping]) -> dict[int, Cost]:
    """Slices of one server under one workload from their pieces, rows of table ``slice``."""
    found: dict[int, Cost] = {}
    for row in rows:
        cpu, events = found.get(row["slice"], (0.0, 0.0))
        found[row["slice"]] = cpu + row["cpu"], events + row["events"]
    return found


def blocks(campaign: Campaign, measure: str = "cpu") -> pl.DataFrame:
    """One row a duet: block, variant, role ("A2" for the baseline beside itself), workload, ``log`` (ln partner ÷ baseline)
    and its ``pairs``. ``measure``: "cpu" per transaction, or "tps". Only duets whose two
    servers both ended well, of the attempt that counts.
    """
    good = campaign.duet.filter(pl.col("counted") & (pl.col("outcome") == "ok"))
    places = good.select("trial", "block", "position", "variant", "role")
    rows = campaign.slice.join(places, on="trial", how="inner")
    top = pl.col("cpu") if measure == "cpu" else pl.col("seconds")
    sums = rows.group_by("block", "position", "variant", "role", "workload", "slice").agg(
        cost=top.sum(), events=pl.col("events").sum(), half=pl.col("half").first()
    )
    found = []
    baselines = dict(sums.filter(pl.col("role") == "A1").group_by("block", "position", "workload"))
    for key, partner in sums.filter(pl.col("role") != "A1").group_by("block", "position", "workload", maintain_order=True):
        if (baseline := baselines.get(key)) is None:
            continue
        logs = slice_logs(
            *({n: (c, e) for n, c, e in g.select("slice", "cost", "events").iter_rows()} for g in (baseline, partner))
        )
        if pairs := pair_logs(logs):
            sign = 1 if measure == "cpu" else -1
            value = sign * math.fsum(pairs) / len(pairs)
            found.append((key[0], partner["variant"][0], partner["role"][0], key[2], value, [sign * p for p in pairs]))
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "block": pl.Int64, "variant": pl.String, "role": pl.String, "workload": pl.String, "log": pl.Float64,
        "pairs": pl.List(pl.Float64),
    }  # fmt: skip
    return pl.DataFrame(found, schema=schema, orient="row").sort("workload", "block", "variant", "role")


def absolute(campaign: Campaign) -> pl.DataFrame:
    """One row a workload and variant: ``cpu`` microseconds per transaction and ``tps``, means over all its slices that count;
    the baseline's of all duets.
    """
    good = campaign.duet.filter(pl.col("counted") & (pl.col("outcome") == "ok"))
    return (
        campaign.slice.join(good.select("trial", "variant"), on="trial", how="inner")
        .group_by("workload", "variant")
        .agg(
            cpu=pl.col("cpu").sum() / pl.col("events").sum() * 1e6,
            tps=pl.col("events").sum() / pl.col("seconds").sum(),
        )
        .sort("workload", "variant")
    )
