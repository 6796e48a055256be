"""Compute what the CPU and the kernel counted of a server for each transaction, and its ratios to
the baseline. Descriptive: no verdict uses it.
"""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.values import (
    Values,
    collect_paired_values,
    collect_values,
    compare,
    compute_block_logs,
)

# The modes in which an event of the CPU is counted; their sum has the event's bare name.
_MODES = (":u", ":k")

_SCHEMA = {
    "design": pl.String,
    "workload": pl.String,
    "threads": pl.Int64,
    "variant": pl.String,
    "event": pl.String,
    "per_transaction": pl.Float64,
    "ratio": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "blocks": pl.Int64,
}


def build_counter_table(campaign: Campaign) -> pl.DataFrame:
    """Return one row a design, workload, level (``threads``, null in the duet), variant and event:
    the mean count ``per_transaction`` over all that counts, ``ratio`` to the baseline with a plain
    95 % interval (``low``, ``high``: null below two blocks) and ``blocks``. The baseline's ratio is
    A2 ÷ A1. "instructions" is the sum of user mode ("instructions:u") and kernel.

    A duet's ratio is the plain mean over pairs of swapped slices, with all that was counted: other
    tenants slow instructions down, and add none.
    """
    rows = [*_count_duets(campaign), *_count_levels(campaign)]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def measure_refused_share(campaign: Campaign) -> float:
    """Return the share of all counts that were refused because others had the CPU's counters for
    too much of the time; 0 without any.
    """
    counts = pl.concat(
        [table.select("count") for table in (campaign.step_counter, campaign.slice_counter)]
    )
    return counts["count"].null_count() / counts.height if counts.height else 0.0


def add_both_modes(counts: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a counter table with those of each event in both modes together, where
    both were counted.
    """
    places = [name for name in counts.columns if name not in ("event", "count", "running")]
    complete = counts.drop_nulls("count").select(*places, "event", pl.col("count").cast(pl.Float64))
    both = (
        complete.filter(pl.col("event").str.contains(":"))
        .with_columns(pl.col("event").str.split(":").list.first())
        .group_by(*places, "event", maintain_order=True)
        .agg(pl.col("count").sum(), modes=pl.len())
        .filter(modes=len(_MODES))
        .drop("modes")
    )
    return pl.concat([both, complete])


def _count_duets(campaign: Campaign) -> Iterator[tuple]:
    counts = add_both_modes(campaign.slice_counter)
    place = ["trial", "workload", "slice", "piece"]
    good = campaign.duet.filter("counted", outcome="ok")
    for event in counts["event"].unique(maintain_order=True).sort():
        slices = campaign.slice.join(
            counts.filter(event=event).drop("event"), on=place, how="inner"
        )
        logs = compute_block_logs(replace(campaign, slice=slices), "paired", "count")
        means = dict(_average_by_variant(slices.join(good.select("trial", "variant"), on="trial")))
        for workload in campaign.experiment.workloads:
            values = collect_paired_values(campaign, logs.filter(workload=workload))
            for name in campaign.names:
                if (mean := means.get((workload, name))) is not None:
                    ratio = _compare_with_baseline(values, name)
                    yield (Design.DUET, workload, None, name, event, mean, *ratio)


def _average_by_variant(slices: pl.DataFrame) -> Iterator[tuple[tuple[str, str], float]]:
    sums = slices.group_by("workload", "variant").agg(pl.col("count", "events").sum())
    for workload, name, count, events in sums.iter_rows():
        if events:
            yield (workload, name), count / events


def _count_levels(campaign: Campaign) -> Iterator[tuple]:
    counts = add_both_modes(campaign.step_counter)
    levels = (
        campaign.of(campaign.step)
        .filter(pl.col("window_events") > 0, kind="level")
        .join(counts, on=["trial", "step"], how="inner")
        .with_columns(value=pl.col("count") / pl.col("window_events"))
    )
    cells = levels.select("workload", "threads", "event").unique().sort(pl.all())
    for workload, threads, event in cells.iter_rows():
        of_cell = levels.filter(workload=workload, threads=threads, event=event)
        values = collect_values(campaign, of_cell, "value")
        for name in campaign.names:
            of_variant = of_cell.filter(variant=name)
            if of_variant.height:
                mean = float(of_variant["count"].sum()) / int(of_variant["window_events"].sum())
                ratio = _compare_with_baseline(values, name)
                yield (Design.SOLO, workload, threads, name, event, mean, *ratio)


def _compare_with_baseline(
    values: Values, name: str
) -> tuple[float | None, float | None, float | None, int]:
    """Return (ratio, low, high, blocks)."""
    ratio = compare(values, name, values.baseline)
    return (*ratio.figures, ratio.blocks) if ratio else (None, None, None, 0)
