"""Judge a campaign at its looks, by the analysis."""

from collections.abc import Mapping
from pathlib import Path

from dballoc.questions.campaign.answer.stopping_rule import is_design_decided
from dballoc.questions.compare.baseline_comparison import compare_with_baseline, declare_procedures
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.procedure import Procedure


class InterimLooks:
    """Judges a campaign by its declared procedure
    (:mod:`dballoc.questions.campaign.answer.stopping_rule`).
    """

    def declare_procedures(self, directory: Path) -> Mapping[str, Procedure]:
        """Return each design's procedure after the blocks that are finished."""
        return declare_procedures(load_campaign(directory, series=False))

    def is_decided_at(self, directory: Path, design: str, blocks: int) -> bool:
        """Whether this number of blocks is a look at which more blocks of the design could only
        repeat the verdicts.
        """
        campaign = load_campaign(directory, series=False)
        return blocks in declare_procedures(campaign)[design].spending and all(
            is_design_decided(
                compare_with_baseline(part),
                design,
                campaign.facts.duet.left_out,
                campaign.facts.margin,
            )
            for part in campaign.split_by_cpus()
        )
