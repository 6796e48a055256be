"""Campaigns on one number of CPUs, judged."""

from pathlib import Path

from dballoc.document.model import Answer
from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY, Preference
from dballoc.questions.campaign.answer.recommendation import Recommendation
from dballoc.questions.compare.baseline_comparison import Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.report_content import compose_whole_answer, judge_campaign


def judge_whole(
    campaign: Campaign, preference: Preference = LEAST_MEMORY, directory: Path | None = None
) -> tuple[Comparisons, Recommendation, Answer]:
    """Judge a campaign on one number of CPUs: its comparisons, what the rule makes of them, and the
    answer.
    """
    parts = judge_campaign(campaign, preference, directory)
    [part] = parts
    answer = compose_whole_answer(campaign, parts)
    return part.recommendation.comparisons, part.recommendation, answer
