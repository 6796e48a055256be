"""Compute what every level showed: throughput, latency, CPU and switches per operation, and ratios
to the baseline.
"""

import math

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.measures import OF_LEVEL, Metric
from dballoc.analysis.tables.values import compare, read_values
from dballoc.distributions import compute_t_quantile

# Descriptive intervals, outside the declared family, are plain 95 % ones.
CONFIDENCE = 0.95

_PLACE = ("variant", "workload", "threads")


def average_levels(campaign: Campaign) -> pl.DataFrame:
    """Return one row a variant, workload, threads and measure: ``mean`` with a 95 % t interval over
    blocks (``low``, ``high``: null below two blocks), ``n`` blocks. The baseline's two runs of a
    block are averaged first.
    """
    rows = (
        campaign.levels.group_by("block", *_PLACE)
        .agg(pl.col(name).mean() for name in OF_LEVEL)
        .unpivot(list(OF_LEVEL), index=["block", *_PLACE], variable_name="measure")
        .drop_nulls("value")
        .group_by(*_PLACE, "measure", maintain_order=True)
        .agg(mean=pl.col("value").mean(), deviation=pl.col("value").std(), n=pl.len())
    )
    half = [
        compute_t_quantile(n - 1, (1 + CONFIDENCE) / 2) * deviation / math.sqrt(n)
        if n > 1
        else None
        for deviation, n in rows.select("deviation", "n").iter_rows()
    ]
    rows = rows.with_columns(half=pl.Series(half, dtype=pl.Float64))
    order = {name: i for i, name in enumerate(campaign.names)}
    return (
        rows.with_columns(
            low=(pl.col("mean") - pl.col("half")).clip(0), high=pl.col("mean") + pl.col("half"),
            order=pl.col("variant").replace_strict(order, return_dtype=pl.Int64),
        )
        .sort("workload", "measure", "threads", "order")
        .drop("half", "deviation", "order")
    )  # fmt: skip


def compute_relative_levels(campaign: Campaign, name: str = "qps") -> pl.DataFrame:
    """Return one row a variant (not the baseline), workload and threads: ``ratio`` to the baseline
    with ``low``, ``high`` (95 %; null below two blocks) and ``n`` blocks. ``name``: of a measure in
    tables of levels.
    """
    schema = {
        "variant": pl.String,
        "workload": pl.String,
        "threads": pl.Int64,
        "ratio": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n": pl.Int64,
    }
    baseline, *others = campaign.names
    rows = []
    for workload in campaign.experiment.workloads:
        for threads in campaign.experiment.threads:
            metric = Metric(measure=OF_LEVEL[name], workload=workload, threads=threads)
            values = read_values(campaign, metric)
            for variant in others:
                if r := compare(values, variant, baseline, CONFIDENCE):
                    rows.append((variant, workload, threads, *r.figures, r.blocks))
    return pl.DataFrame(rows, schema=schema, orient="row")
