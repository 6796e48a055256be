"""Build the table of how far replicas were behind their primaries."""

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.experiment.trial_steps import KEEPS_UP


def build_replica_table(campaign: Campaign) -> pl.DataFrame:
    """Return one row a workload, level and variant, over its good trials: ``primary_tps`` and
    ``tps``, means of what the primary committed and the replica applied a second; ``behind``,
    ``lag`` (s), ``waited`` (s) and ``left_behind``, the largest; of ``trials``, in how many the
    replica was ``late``. Empty without replicas.
    """
    levels = campaign.of(campaign.step.filter(pl.col("kind") == "level")).join(
        campaign.replica, on=["trial", "step"], how="inner"
    )
    return (
        levels.group_by("workload", "threads", "variant", maintain_order=True)
        .agg(
            pl.col("primary_tps", "tps").mean(),
            pl.col("behind", "lag", "waited", "left_behind").max(),
            late=(pl.col("lag") > KEEPS_UP).sum(),
            trials=pl.len(),
        )
        .sort("workload", "threads", maintain_order=True)
    )
