"""Figures over time: the load's intervals and the server's samples, averaged over trials by second."""

import polars as pl

from dballoc.analysis.campaign import Campaign


def throughput(campaign: Campaign) -> pl.DataFrame:
    """One row a variant, workload, threads and second of a level: mean ``tps`` and ``latency`` (ms) over trials."""
    steps = campaign.step.filter(pl.col("kind") == "level").select(
        "trial", "step", "workload", pl.col("threads").alias("level"), began="t"
    )
    return (
        campaign.of(campaign.interval)
        .join(steps, on=["trial", "step"], how="inner")
        .with_columns(second=(pl.col("t") - pl.col("began")).round(0).cast(pl.Int64), tps=pl.col("events") / pl.col("seconds"))
        .group_by("variant", "workload", threads="level", second="second")
        .agg(pl.col("tps", "latency").mean(), n=pl.len())
        .sort("workload", "threads", "variant", "second")
    )


def server(campaign: Campaign) -> pl.DataFrame:
    """One row a variant and second since the trial's start, all steps: mean ``rss``, ``vsz`` (as the kernel has it),
    ``usable`` (vsz without reserved address space; bytes), ``user`` and ``system`` (% of one CPU), and what step the
    second belongs to in most trials (``kind``, ``workload``, ``threads``). Only seconds that at least half of the
    variant's trials reached.
    """
    steps = campaign.step.select("trial", "step", "kind", "workload", pl.col("threads").alias("clients"))
    rows = (
        campaign.of(campaign.sample)
        .sort("trial", "t")
        .with_columns(
            gap=pl.col("t").diff().over("trial"),
            user=pl.col("cpu_user").diff().over("trial"),
            system=pl.col("cpu_system").diff().over("trial"),
        )
        # Two samples in quick succession at a step's border say nothing about CPU: ticks are 10 ms.
        .with_columns(
            pl.when(pl.col("gap") > 0.5).then(pl.col(c) / pl.col("gap") * 100).otherwise(None).alias(c)
            for c in ("user", "system")
        )
        .join(steps, on=["trial", "step"], how="inner")
        .with_columns(second=pl.col("t").round(0).cast(pl.Int64), usable=pl.col("vsz") - pl.col("reserved"))
    )
    trials = campaign.good.group_by("variant").agg(trials=pl.len())
    return (
        rows.group_by("variant", "second")
        .agg(
            pl.col("rss", "vsz", "usable", "user", "system").mean(),
            pl.col("kind", "workload").mode().first(),
            threads=pl.col("clients").mode().first(),
            n=pl.col("trial").n_unique(),
        )
        .join(trials, on="variant")
        .filter(pl.col("n") * 2 >= pl.col("trials"))
        .drop("trials")
        .sort("variant", "second")
    )
