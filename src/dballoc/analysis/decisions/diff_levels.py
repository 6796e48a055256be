"""Declare the levels at which two campaigns are compared. Pure.

The verdicts of a comparison of campaigns share the error of 5 % as those of a campaign do. A
campaign that may have stopped at a look because of what it saw is compared at that look's level: of
the error of each comparison, only the share of the look that the first campaign ended at, times
that of the second's, is spent. Over all pairs of looks these products add up to the whole, so that
5 % hold whichever looks the campaigns ended at.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dballoc.analysis.decisions.sequential_test import (
    CPU,
    THROUGHPUT,
    Procedure,
    declare_replay_shares,
    declare_shares,
)
from dballoc.analysis.measures import Metric
from dballoc.experiment.designs import Design


@dataclass(frozen=True, kw_only=True)
class LookTaken:
    """The look at which a design of the ``campaign`` ("first" or "second") is judged: after
    ``blocks`` of the ``planned`` ones; None before the first look.
    """

    campaign: str
    design: str
    blocks: int | None
    planned: int

    @property
    def words(self) -> str:
        """Return how the look is told: ``the first's solo blocks: 6 of 10 planned``."""
        if self.blocks is None:
            return f"the {self.campaign}'s {self.design} blocks: no look was reached"
        progress = f"{self.blocks} of {self.planned} planned"
        return f"the {self.campaign}'s {self.design} blocks: {progress}"


def list_looks_taken(campaign: str, procedures: Mapping[str, Procedure]) -> list[LookTaken]:
    """Return the looks at which a campaign is judged, if they are not its planned ends."""
    return [
        LookTaken(campaign=campaign, design=d, blocks=p.reached, planned=p.looks[-1])
        for d, p in procedures.items()
        if p.reached != p.looks[-1]
    ]


def find_look_share(procedures: Mapping[str, Procedure], design: str) -> float:
    """Return the share of its error that a design spends at the look at which it is judged; 1 for a
    look that was not reached, which has no verdict.
    """
    procedure = procedures.get(design)
    if procedure is None or procedure.reached is None:
        return 1.0
    return procedure.spending[procedure.reached]


def declare_diff_levels(judged: Collection[Metric], variants: int) -> dict[str, float]:
    """Return the error of one comparison by the measure's name. ``judged``: the metrics with a
    verdict; ``variants``: those that are judged.
    """
    names = [metric.measure.name for metric in judged]
    designs = {metric.design for metric in judged}
    workloads = max(1, *(names.count(speed) for speed in (CPU, THROUGHPUT)))
    replays = CPU in names and Design.DUET not in designs
    shares = (
        declare_replay_shares(variants + 1, workloads, judges_memory=True)
        if replays
        else declare_shares(designs, variants + 1, workloads)
    )
    return {name: shares[name].of_each for name in names}
