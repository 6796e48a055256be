"""Find whose throughput collapses, in which workload and at which level."""

import math
from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions import throughput_collapse
from dballoc.analysis.tables import level_curves
from dballoc.experiment.designs import Design
from dballoc.numbers import listing, percent


@dataclass(frozen=True, kw_only=True)
class Collapse:
    """A variant's collapse in a workload: the level before it, the first of it, and its share of
    the best before.
    """

    variant: str
    workload: str
    before: int
    at: int
    share: float

    @property
    def words(self) -> str:
        """Return ``oltp_read_only between 512 and 1024 (11 % of the best before)``."""
        return (
            f"{self.workload} between {self.before} and {self.at} ({percent(self.share, 0)} of the "
            "best before)"
        )


def find_collapses(campaign: Campaign) -> list[Collapse]:
    """Return every collapse, in the experiment's order."""
    throughput = level_curves.average_levels(campaign).filter(pl.col("measure") == "tps")
    fallen = []
    for name in campaign.names:
        for workload in campaign.experiment.workloads:
            points = throughput.filter(
                (pl.col("workload") == workload) & (pl.col("variant") == name)
            )
            curve = dict(points.select("threads", "mean").iter_rows())
            place = throughput_collapse.find_collapse(curve) if curve else None
            if place:
                best = max(tps for n, tps in curve.items() if n < place[1])
                fallen.append(
                    Collapse(
                        variant=name,
                        workload=workload,
                        before=place[0],
                        at=place[1],
                        share=curve[place[1]] / best,
                    )
                )
    return fallen


def describe_own_collapses(campaign: Campaign) -> dict[str, str]:
    """Return, for each variant whose throughput collapses where the baseline's does not, at the
    same level or below, where that is. Empty without solo trials, which alone rise over levels.
    """
    if Design.SOLO not in campaign.designs:
        return {}
    baseline = campaign.experiment.baseline
    collapses = find_collapses(campaign)
    shared = {c.workload: c.at for c in collapses if c.variant == baseline}
    places: dict[str, list[str]] = {}
    for collapse in collapses:
        if collapse.at < shared.get(collapse.workload, math.inf):
            places.setdefault(collapse.variant, []).append(collapse.words)
    return {name: listing(words) for name, words in places.items()}
