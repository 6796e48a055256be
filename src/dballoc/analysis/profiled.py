"""The trials whose variants were profiled, and under which workloads."""

from typing import Any

import polars as pl

from dballoc.analysis.campaign import Campaign
from dballoc.experiment.model import LOAD


def profiled(campaign: Campaign) -> list[tuple[dict[str, Any], list[str]]]:
    """Of each (:func:`dballoc.experiment.steps.is_profiled`) its row and its workloads, in the order of the variants."""
    rows = campaign.trial.filter(
        pl.col("counted") & (pl.col("block") == 1) & (pl.col("role") != "A2")
        & pl.col("level").is_in([None, campaign.experiment.threads[-1]], nulls_equal=True)
    )  # fmt: skip
    ordered = sorted(rows.iter_rows(named=True), key=lambda row: campaign.names.index(row["variant"]))
    return [(row, [name for name in campaign.experiment.runs(row["workload"]) if name != LOAD]) for row in ordered]
