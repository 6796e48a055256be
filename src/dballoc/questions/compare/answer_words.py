"""Words that all answers on campaigns use: how far a campaign is, verdicts, faults."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dballoc.experiment.designs import Design
from dballoc.ground.numbers import count
from dballoc.questions.compare.baseline_comparison import (
    Comparison,
    Comparisons,
    declare_procedures,
)
from dballoc.questions.compare.campaign_tables import Campaign, is_final
from dballoc.questions.compare.client_connections import (
    VariantConnections,
    count_client_connections,
)
from dballoc.questions.compare.procedure import Procedure
from dballoc.questions.compare.ratios_as_text import describe_resolution
from dballoc.questions.compare.split_by_host import LostHosts, count_lost_hosts
from dballoc.questions.compare.verdict import Verdict

# More figures than these are counted and not listed.
MANY = 8


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the campaign is: by design finished ``blocks`` of ``planned``; ``disturbed``: counted
    although disturbed; ``ends``: the planned ends, or where the budget ended a design before it,
    beyond which an extension goes; ``decided``: the designs that are decided. ``no_duet``: why a
    campaign that might have played duets did not; ``lost``: trials in which the host was lost, by
    variant, and ``hosts``: how many hosts ran blocks, of a campaign on several. ``connections``: by
    variant, where they are known.
    """

    blocks: dict[str, int]
    planned: dict[str, int]
    ending: str | None = None
    disturbed: int = 0
    no_duet: str | None = None
    lost: list[LostHosts] = field(default_factory=list)
    hosts: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    decided: frozenset[str] = frozenset()
    connections: Mapping[str, VariantConnections] = field(default_factory=dict)

    @property
    def is_extended(self) -> bool:
        """Whether it has blocks of an extension."""
        return any(self.blocks[design] > end for design, end in self.ends.items())

    @property
    def final(self) -> bool:
        """Whether the campaign has come to its own end; before, its verdicts are interim."""
        return self.complete or is_final(self.ending)

    @property
    def complete(self) -> bool:
        """Whether every planned block is there."""
        return all(self.blocks[design] >= self.planned[design] for design in self.planned)

    @property
    def words(self) -> str:
        """``6 of 6 solo blocks, 8 of 10 duet blocks``."""
        return self.describe_blocks(self.planned)

    def describe_blocks(self, designs: Iterable[str]) -> str:
        """Return how far some of the designs are."""
        return ", ".join(
            f"{self.blocks[d]} of {count(self.planned[d], f'{d} block')}" for d in designs
        )


def _read_ending(campaign: Campaign, procedures: Mapping[str, Procedure]) -> str | None:
    """Return how the campaign ended. An extension that was cut before its first block leaves what
    the budget ended as it was.
    """
    ending = campaign.facts.ending
    at_budget = {
        d for d, p in procedures.items() if p.is_over_budget and p.blocks in p.budget_looks
    }
    others = procedures.keys() - at_budget - campaign.facts.decided.keys()
    is_ended = all(procedures[d].blocks >= procedures[d].goal for d in others)
    return "budget" if ending == "interrupted" and at_budget and is_ended else ending


def measure_progress(campaign: Campaign) -> Progress:
    """Return how far a campaign is, finished or under way."""
    disturbed = 0
    for rows in map(campaign.list_attempts, Design):
        last = {
            row["block"]: row["disturbed"]
            for row in rows.sort("block", "attempt").iter_rows(named=True)
        }
        disturbed += sum(1 for reason in last.values() if reason is not None)
    procedures = declare_procedures(campaign)
    planned = {design: p.goal for design, p in procedures.items()}
    no_duet = campaign.facts.duet.none
    return Progress(
        blocks={d: campaign.blocks(d) for d in planned},
        planned=planned,
        ending=_read_ending(campaign, procedures),
        disturbed=disturbed,
        no_duet=no_duet,
        lost=count_lost_hosts(campaign) if campaign.placement.height else [],
        hosts=campaign.placement["host"].n_unique(),
        ends={
            design: max((n for n in p.budget_looks if n < p.looks[-1]), default=p.looks[-1])
            for design, p in procedures.items()
        },
        decided=frozenset(campaign.facts.decided),
        connections=count_client_connections(campaign),
    )


def describe_verdict(comparison: Comparison, comparisons: Comparisons) -> str:
    """Return the verdict as it is printed everywhere; where there can be none, why."""
    baseline = comparisons.baseline
    for name, whose in ((comparison.variant, ""), (baseline, f" of {baseline}")):
        if name in comparisons.faulty:
            return f"no verdict: {describe_faults(comparisons.faulty[name], whose)}"
    if comparison.ratio is None:
        return "no figures yet"
    if comparison.ratio.blocks < 2:
        return "no verdict from one block"
    if not comparison.judged:
        return comparison.verdict.value
    if comparison.verdict is Verdict.UNDECIDED:
        return f"{Verdict.UNDECIDED} ({describe_resolution(comparison.ratio.detectable)})"
    return comparison.verdict.value


def describe_faults(k_of_n: tuple[int, int], whose: str = "") -> str:
    """Return ``2 of 6 trials ended in a fault``."""
    return f"{k_of_n[0]} of {k_of_n[1]} trials{whose} ended in a fault"
