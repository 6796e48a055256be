"""Read what the confirmation says of a search's finalists, and which of them to run."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dballoc.analysis.campaign_tables import Campaign, load_campaign
from dballoc.analysis.decisions.endings import Ending
from dballoc.analysis.decisions.preference import Preference
from dballoc.analysis.decisions.recommendation import Recommendation, recommend
from dballoc.analysis.evidence import gather_evidence
from dballoc.analysis.tables.baseline_comparison import Comparisons, compare_with_baseline
from dballoc.analysis.tune.search_history import check_is_search
from dballoc.store.campaign_facts import CONFIRMATIONS
from dballoc.store.open_database import FILE
from dballoc.store.results import Results


class Outcome(StrEnum):
    """What the confirmation says of one finalist."""

    CONFIRMED = "confirmed"
    NOT_SETTLED = "not settled"
    NOT_BETTER = "not shown to be better"
    BREAKS_BOUND = "breaks a bound"
    FAULT = "a trial ended in a fault"
    DEFAULT_FAILED = "the default failed"
    NOT_MEASURED = "not measured yet"


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """One campaign of the confirmation, judged. ``campaign`` and the rest are None before its first
    trial.
    """

    base: str
    directory: Path
    finalists: tuple[str, ...]
    campaign: Campaign | None = None
    comparisons: Comparisons | None = None
    recommendation: Recommendation | None = None

    @property
    def winner(self) -> str | None:
        """The finalist that is shown to be better, and to keep to what was asked; None if none
        is.
        """
        if self.recommendation is None or self.recommendation.ending is not Ending.USE:
            return None
        return self.recommendation.subject

    def judge_finalist(self, name: str) -> Outcome:
        """Return what the campaign says of a finalist, whether or not it is the one to run."""
        if self.recommendation is None or self.comparisons is None:
            return Outcome.NOT_MEASURED
        if name in self.comparisons.faulty:
            return Outcome.FAULT
        if self.recommendation.ending is Ending.BASELINE_FAILED:
            return Outcome.DEFAULT_FAILED
        standing = self.recommendation.standings.get(name)
        if standing is None:
            return Outcome.NOT_MEASURED
        if name in self.recommendation.excluded:
            return Outcome.BREAKS_BOUND
        return _OUTCOMES.get(standing.ending, Outcome.NOT_BETTER)


_OUTCOMES = {Ending.USE: Outcome.CONFIRMED, Ending.NOT_SETTLED: Outcome.NOT_SETTLED}


def load_confirmed(directory: Path, preference: Preference) -> list[Confirmed]:
    """Return the campaigns that were declared after the search in ``directory``; none where no
    configuration was put forward, or the search goes on. UsageError if it is no search's.
    """
    results = Results.open(directory, read_only=True)
    try:
        check_is_search(results, directory)
        declared = json.loads(results.checked_facts().get(CONFIRMATIONS, "[]"))
    finally:
        results.close()
    return [_judge(entry, directory / entry["directory"], preference) for entry in declared]


def _judge(entry: dict, directory: Path, preference: Preference) -> Confirmed:
    base, finalists = entry["base"], tuple(entry["finalists"])
    if not (directory / FILE).exists():
        return Confirmed(base=base, directory=directory, finalists=finalists)
    campaign = load_campaign(directory)
    comparisons = compare_with_baseline(campaign)
    return Confirmed(
        base=base,
        directory=directory,
        finalists=finalists,
        campaign=campaign,
        comparisons=comparisons,
        recommendation=recommend(
            comparisons,
            campaign.experiment.baseline,
            preference,
            gather_evidence(campaign, comparisons, preference),
        ),
    )


def choose_winner(confirmed: Sequence[Confirmed], preference: Preference) -> Confirmed | None:
    """Return the campaign whose winner to run: of several, the one with the lowest measured figure
    of the objective. That comparison across campaigns is no verdict.
    """
    winners = [c for c in confirmed if c.winner is not None]
    return min(winners, key=lambda c: _measure_winner(c, preference), default=None)


def _measure_winner(confirmed: Confirmed, preference: Preference) -> float:
    assert confirmed.campaign is not None
    trials = confirmed.campaign.good.filter(variant=confirmed.winner)
    if preference.objective == "memory":
        mean = trials["rss_peak"].mean()
        return float(mean) if isinstance(mean, int | float) else math.inf
    costs = confirmed.campaign.of(confirmed.campaign.step).filter(
        variant=confirmed.winner, kind="level"
    )
    cpu, events = costs["cpu"].sum(), costs["window_events"].sum()
    return float(cpu) / float(events) if events else math.inf
