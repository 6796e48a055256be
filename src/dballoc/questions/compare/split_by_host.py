"""A campaign on several hosts: the blocks of each host, and which variants lose hosts. Pure.

A trial whose host was lost enters no figure, for its block was drawn again; so that a variant which
takes hosts down does not vanish from the results, it is named.
"""

from dataclasses import dataclass, replace

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.ground.distributions import compute_binomial_tail
from dballoc.questions.compare.baseline_comparison import declare_procedures, list_first_blocks
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.store.facts import Environment, parse_environment
from dballoc.store.results import HOST_LOST


def split_by_host(campaign: Campaign) -> list[Campaign]:
    """Return a campaign for each host of one that ran on several (``bench --ray``), with that
    host's blocks and environment, and a plan of its own; any other as it is. Hosts that share a
    kernel are one machine, and so one host. Hosts without a block are left out.
    """
    if campaign.placement.is_empty():
        return [campaign]
    parts = []
    # Without hosts that had clients alone.
    of_servers = campaign.host.filter(pl.col("host").is_in(campaign.placement["host"].to_list()))
    for (kernel,), hosts in of_servers.sort("host").group_by("kernel", maintain_order=True):
        names = hosts["host"].to_list()
        placed = campaign.placement.filter(pl.col("host").is_in(names))
        noted = parse_environment(hosts["environment"][0], "host.environment")
        environment = replace(noted, host=names[0], boot_id=str(kernel))
        part = _select_blocks(campaign, placed, environment)
        if any(part.blocks(design) for design in part.facts.designs):
            parts.append(_plan_part(campaign, part))
    return parts


def list_environments(campaign: Campaign) -> list[Environment]:
    """Return the environment of every machine to which blocks were given: of a campaign without
    hosts, that of its one machine.
    """
    if campaign.placement.is_empty():
        return [campaign.environment]
    placed = campaign.host.filter(pl.col("host").is_in(campaign.placement["host"].to_list()))
    machines = placed.sort("host").unique("kernel", keep="first", maintain_order=True)
    return [
        replace(parse_environment(row["environment"], "host.environment"), host=row["host"])
        for row in machines.iter_rows(named=True)
    ]


def find_own_name(campaign: Campaign) -> str | None:
    """Return what a campaign's host calls itself. Of a host's part of a campaign, the environment
    has the name that tells it from that campaign's other hosts, with its address.
    """
    name = campaign.environment.host
    rows = campaign.host.filter(pl.col("host").eq_missing(name))
    if rows.is_empty():
        return name
    return parse_environment(rows["environment"][0], "host.environment").host or name


def _select_blocks(campaign: Campaign, placed: pl.DataFrame, environment: Environment) -> Campaign:
    """Return the campaign with the attempts that were given to a host. Of a block that was repeated
    elsewhere it has nothing.
    """

    def of_design(frame: pl.DataFrame, design: str) -> pl.DataFrame:
        keys = placed.filter(design=design).select("block", "attempt")
        return frame.join(keys, on=["block", "attempt"], how="semi")

    def of_counted(block: pl.DataFrame, trial: pl.DataFrame, design: str) -> pl.DataFrame:
        counted = trial.filter("counted").select("block", "attempt").unique()
        return of_design(block, design).join(counted, on=["block", "attempt"], how="semi")

    return replace(
        campaign,
        environment=environment,
        trial=of_design(campaign.trial, Design.SOLO),
        block=of_counted(campaign.block, campaign.trial, Design.SOLO),
        duet=of_design(campaign.duet, Design.DUET),
        duet_block=of_counted(campaign.duet_block, campaign.duet, Design.DUET),
        rotation=of_design(campaign.rotation, Design.TURNS),
        rotation_block=of_counted(campaign.rotation_block, campaign.rotation, Design.TURNS),
    )


def _plan_part(campaign: Campaign, part: Campaign) -> Campaign:
    """Return a host's part with its share of the planned blocks as its plan, and with a look at
    each of the campaign's, as if a budget had ended it there: a look that ended the campaign ended
    the part, and so costs it what it cost the campaign.
    """
    planned = {**campaign.facts.planned_blocks}
    looks: dict[str, tuple[int, ...]] = {}
    for design, procedure in declare_procedures(campaign).items():
        blocks, part_blocks = (each.list_attempts(design) for each in (campaign, part))
        total = max(1, blocks["block"].n_unique())
        # Rounded up; a design without a block of this host needs a plan, too.
        share = -(-planned[design] * part_blocks["block"].n_unique() // total)
        planned[design] = max(1, share)
        reached = [n for n in procedure.spending if n <= procedure.blocks]
        numbers = {
            part_blocks.filter(pl.col("block").is_in(list_first_blocks(blocks, n)))[
                "block"
            ].n_unique()
            for n in reached
        }
        looks[design] = tuple(sorted(numbers - {0}))
    facts = replace(part.facts, planned_blocks=planned, budget_looks=looks)
    return replace(part, facts=facts)


# The probability of naming any variant when losses have nothing to do with variants.
ERROR = 0.05


@dataclass(frozen=True)
class LostHosts:
    """Trials of a variant in which the host was lost. ``chance``: the probability of as many or
    more, had each loss struck a trial at random; ``is_suspect``: whether that is too small.
    """

    variant: str
    losses: int
    chance: float
    is_suspect: bool


def count_lost_hosts(campaign: Campaign) -> list[LostHosts]:
    """Return the variants with lost hosts, the one with most first.

    Given all losses, a variant's number of them is binomial with its share of the trials, if
    losses do not depend on variants; the variants share :data:`ERROR` evenly (Bonferroni). In a
    duet, whose two servers are lost together, the partner counts, as the baseline is in all. Turns,
    whose servers are lost all together, tell nothing.
    """
    trials = pl.concat([campaign.trial, campaign.duet], how="diagonal").filter(
        (pl.col("design") == Design.SOLO) | (pl.col("role") != "A1")
    )
    counts = trials.group_by("variant").agg(
        pl.len().alias("trials"), (pl.col("fault") == HOST_LOST).sum().alias("losses")
    )
    losses, total = counts["losses"].sum(), counts["trials"].sum()
    rows = []
    for name, of_variant, lost in counts.iter_rows():
        if lost:
            chance = compute_binomial_tail(lost, int(losses), of_variant / total)
            rows.append(LostHosts(name, lost, chance, chance < ERROR / len(counts)))
    return sorted(rows, key=lambda row: (-row.losses, row.variant))
