"""Which variants lose hosts. A trial whose host was lost enters no figure, for its block was drawn
again; so that a variant which takes hosts down does not vanish from the results, it is named. Pure.
"""

from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.distributions import compute_binomial_tail
from dballoc.experiment.designs import Design
from dballoc.store.results import HOST_LOST

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
    duet, whose two servers are lost together, the partner counts, as the baseline is in all.
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
