"""The blocks of a campaign on several hosts, host by host. Pure."""

import json
from dataclasses import replace

import polars as pl

from dballoc.analysis.campaign_tables import Campaign


def split_by_host(campaign: Campaign) -> list[Campaign]:
    """Return a campaign for each host of one that ran on several (``bench --ray``), with that
    host's blocks and environment; any other as it is. Hosts that share a kernel are one machine,
    and so one host. Hosts without a block are left out.
    """
    if campaign.placement.is_empty():
        return [campaign]
    parts = []
    for _, hosts in campaign.host.sort("host").group_by("kernel", maintain_order=True):
        names = hosts["host"].to_list()
        placed = campaign.placement.filter(pl.col("host").is_in(names))
        environment = json.loads(hosts["environment"][0]) | {"host": names[0]}
        part = _select_blocks(campaign, placed, environment)
        if any(part.blocks(design) for design in part.designs):
            parts.append(part)
    return parts


def _select_blocks(
    campaign: Campaign, placed: pl.DataFrame, environment: dict[str, object]
) -> Campaign:
    def of_design(frame: pl.DataFrame, design: str) -> pl.DataFrame:
        keys = placed.filter(pl.col("design") == design).select("block", "attempt")
        return frame.join(keys, on=["block", "attempt"], how="semi")

    return replace(
        campaign,
        environment=environment,
        trial=of_design(campaign.trial, "solo"),
        block=of_design(campaign.block, "solo"),
        duet=of_design(campaign.duet, "duet"),
        duet_block=of_design(campaign.duet_block, "duet"),
    )
