"""Compute what the sampler itself cost."""

import polars as pl

from dballoc.analysis.campaign_tables import Campaign


def compute_sampler_cost(campaign: Campaign) -> pl.DataFrame:
    """Return one row a variant, over all its trials with samples: ``share`` of one core (1 = all of
    it), ``each`` in microseconds of CPU a sample, ``samples`` and ``trials``.
    """
    rows = campaign.trial.filter(pl.col("samples") > 0)
    spans = campaign.sample.group_by("trial").agg(seconds=pl.col("t").max() - pl.col("t").min())
    costs = (
        rows.join(spans, on="trial", how="inner")
        .group_by("variant")
        .agg(
            share=pl.col("sampler_cpu").sum() / pl.col("seconds").sum(),
            each=pl.col("sampler_cpu").sum() / pl.col("samples").sum() * 1e6,
            samples=pl.col("samples").sum(),
            trials=pl.len(),
        )
    )
    return costs.sort(
        pl.col("variant").replace_strict({n: i for i, n in enumerate(campaign.names)}, default=None)
    )
