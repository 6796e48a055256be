"""Gather what a recommendation rests on beside the comparisons."""

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.constraint_bounds import compute_constraint_bounds
from dballoc.analysis.decisions.noninferiority import DEFAULT_MARGIN
from dballoc.analysis.decisions.preference import Preference
from dballoc.analysis.decisions.recommendation import Evidence
from dballoc.analysis.tables import collapses
from dballoc.analysis.tables.baseline_comparison import Comparisons, select_judged_blocks


def gather_evidence(
    campaign: Campaign, comparisons: Comparisons, preference: Preference
) -> Evidence:
    """Return what the recommendation rests on, in the blocks that are judged. The margin that was
    stored before the first block is the one that counts; any other is exploratory.
    """
    judged = select_judged_blocks(campaign, comparisons.procedures)
    margin = preference.margin or campaign.margin or DEFAULT_MARGIN
    return Evidence(
        margin=margin,
        exploratory=margin != campaign.margin,
        bounds=compute_constraint_bounds(judged, comparisons, preference),
        collapsed=collapses.describe_own_collapses(judged),
        left_out=frozenset(campaign.left_out),
    )
