"""Compute what every level showed: throughput, latency, CPU and switches per operation, and ratios
to the baseline.
"""

import math

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.statistics.ratio_interval import compute_logs_to_baseline, compute_ratio
from dballoc.analysis.tables.virtual_size import add_virtual_size
from dballoc.distributions import compute_t_quantile

# Descriptive intervals, outside the declared family, are plain 95 % ones.
CONFIDENCE = 0.95

# What the whole host did, clients included; results of before it was measured have no such figures.
HOST_MEASURES = (
    "host_user",
    "host_system",
    "host_cpu_per_operation",
    "context_switches_per_operation",
)

# What is averaged over blocks for a level.
MEASURES = (
    "tps",
    "qps",
    "p50",
    "p95",
    "p99",
    "p999",
    "user",
    "system",
    "cpu_per_op",
    "switches_per_op",
    "rss_peak",
    "rss_mean",
    "vsz_peak",
    *HOST_MEASURES,
)


def compute_levels(campaign: Campaign) -> pl.DataFrame:
    """Return one row a trial and level: block, variant, role, workload, threads and
    :data:`MEASURES`.

    Of the server alone: ``user`` and ``system`` in % of one CPU, ``cpu_per_op`` in µs of CPU,
    ``switches_per_op``, RSS and VSZ (``vsz_peak``, as
    :func:`dballoc.analysis.tables.virtual_size.add_virtual_size` has it) in bytes. Of the whole
    host: ``host_user`` and ``host_system`` in % of all CPUs, ``host_cpu_per_operation`` in µs of
    user and system time, ``context_switches_per_operation``. Latencies in ms. Figures per operation
    are null where none ended in the window.
    """
    window, events = pl.col("window"), _omit_zero("window_events")
    return (
        campaign.of(campaign.step)
        .filter(pl.col("kind") == "level")
        .join(_find_highest_vsz(campaign), on=["trial", "step"], how="left", maintain_order="left")
        .join(_share_host_time(campaign), on=["trial", "step"], how="left", maintain_order="left")
        .with_columns(
            user=pl.col("cpu_user") / window * 100,
            system=pl.col("cpu_system") / window * 100,
            cpu_per_op=pl.col("cpu") / events * 1e6,
            switches_per_op=(pl.col("voluntary") + pl.col("involuntary")) / events,
            rss_peak=pl.col("rss_peak").cast(pl.Float64),
            host_cpu_per_operation=pl.col("host_busy") / events * 1e6,
            context_switches_per_operation=pl.col("host_switches") / events,
        )
        .select("block", "variant", "role", "workload", "threads", *MEASURES)
    )


def _omit_zero(column: str) -> pl.Expr:
    return pl.when(pl.col(column) > 0).then(pl.col(column))


def _find_highest_vsz(campaign: Campaign) -> pl.DataFrame:
    return (
        add_virtual_size(campaign.sample)
        .group_by("trial", "step")
        .agg(vsz_peak=pl.col("virtual").max().cast(pl.Float64))
    )


def _share_host_time(campaign: Campaign) -> pl.DataFrame:
    """Return what the host did in each step's window: its CPU time in % of all CPUs, ``host_busy``
    in seconds of CPU, ``host_switches`` (null where its kernel does not count them).
    """
    busy = pl.col("user") + pl.col("system")
    total = busy + pl.col("idle") + pl.col("iowait") + pl.col("steal")
    return (
        campaign.host_step.with_columns(total=total)
        .filter(pl.col("total") > 0)
        .select(
            "trial",
            "step",
            host_user=pl.col("user") / pl.col("total") * 100,
            host_system=pl.col("system") / pl.col("total") * 100,
            host_busy=busy,
            host_switches=_omit_zero("switches"),
        )
    )


def average_levels(campaign: Campaign) -> pl.DataFrame:
    """Return one row a variant, workload, threads and measure: ``mean`` with a 95 % t interval over
    blocks (``low``, ``high``: null below two blocks), ``n`` blocks. The baseline's two runs of a
    block are averaged first.
    """
    rows = (
        compute_levels(campaign)
        .group_by("block", "variant", "workload", "threads")
        .agg(pl.col(m).mean() for m in MEASURES)
        .unpivot(
            MEASURES, index=["block", "variant", "workload", "threads"], variable_name="measure"
        )
        .drop_nulls("value")
        .group_by("variant", "workload", "threads", "measure", maintain_order=True)
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


def compute_relative_levels(campaign: Campaign, measure: str = "qps") -> pl.DataFrame:
    """Return one row a variant (not the baseline), workload and threads: ``ratio`` to the baseline
    with ``low``, ``high`` (95 %; null below two blocks) and ``n`` blocks.
    """
    rows = compute_levels(campaign)
    ratios = []
    for workload in campaign.experiment.workloads:
        for threads in campaign.experiment.threads:
            at_level = rows.filter(
                (pl.col("workload") == workload) & (pl.col("threads") == threads)
            )
            for name in campaign.names[1:]:
                runs = at_level.filter((pl.col("role") != "V") | (pl.col("variant") == name))
                values = {
                    (block, role): value
                    for block, role, value in runs.select("block", "role", measure).iter_rows()
                    if value is not None
                }
                if logs := compute_logs_to_baseline(values, campaign.baseline_roles):
                    to_baseline = compute_ratio(logs, CONFIDENCE)
                    ratios.append(
                        (
                            name,
                            workload,
                            threads,
                            to_baseline.estimate,
                            to_baseline.low,
                            to_baseline.high,
                            to_baseline.blocks,
                        )
                    )
    schema = {
        "variant": pl.String,
        "workload": pl.String,
        "threads": pl.Int64,
        "ratio": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n": pl.Int64,
    }
    return pl.DataFrame(ratios, schema=schema, orient="row")
