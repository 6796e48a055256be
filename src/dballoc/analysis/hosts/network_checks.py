"""Whether the network between servers and clients of other hosts could be seen to be the limit."""

from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign


@dataclass(frozen=True)
class NetworkChecks:
    """Levels whose load came from another host, and those of them where neither host's interface
    told its speed.
    """

    levels: int
    unchecked: int


def count_network_checks(campaign: Campaign) -> NetworkChecks:
    """Return the levels of a campaign; none where clients and servers had one host. Pure."""
    levels = campaign.step.filter(pl.col("kind") == "level").select("trial", "step")
    rows = campaign.client_step.join(levels, on=["trial", "step"], how="inner")
    return NetworkChecks(rows.height, rows["link"].null_count())
