"""Build the table of where each variant's memory was at the end of the load."""

import polars as pl

from dballoc.analysis.campaign_tables import Campaign

_ORDER = {
    part: number for number, part in enumerate(("server", "heap", "threads", "files", "rest"))
}


def build_ledger_table(campaign: Campaign) -> pl.DataFrame:
    """Return one row an owner and variant: ``part``, ``owner``, ``variant``, ``resident`` and
    ``size`` in bytes, means over its good trials (an owner that a trial does not have counts as 0);
    by part, the largest owners first. Empty where no trial has a ledger.
    """
    rows = campaign.of(campaign.ledger)
    trials = rows.group_by("variant").agg(n=pl.col("trial").n_unique())
    return (
        rows.group_by("part", "owner", "variant")
        .agg(pl.col("resident", "size").sum())
        .join(trials, on="variant")
        .with_columns(pl.col("resident", "size") / pl.col("n"))
        .with_columns(
            most=pl.col("resident").max().over("part", "owner"),
            place=pl.col("part").replace_strict(_ORDER),
        )
        .sort("place", -pl.col("most"), "owner", "variant")
        .select("part", "owner", "variant", "resident", "size")
    )
