"""All that a report says of a search and its confirmation: which finalists the confirmation
confirms, and which of them to run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import Preference, parse_preference
from dballoc.questions.campaign.answer.recommendation import (
    Ending,
    Recommendation,
    gather_evidence,
    recommend,
)
from dballoc.questions.compare.baseline_comparison import Comparisons, compare_with_baseline
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign, read_results
from dballoc.questions.compare.measures import PEAK
from dballoc.questions.tune.estimate_effects import Estimated, estimate_front
from dballoc.questions.tune.search_history import (
    ConfigurationResult,
    Tried,
    load_tried,
    select_searched,
    summarize_standings,
)
from dballoc.store.facts import DeclaredConfirmation, KnobWorth
from dballoc.store.open_database import FILE


class FinalistOutcome(StrEnum):
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

    def judge_finalist(self, name: str) -> FinalistOutcome:
        """Return what the campaign says of a finalist, whether or not it is the one to run."""
        if self.recommendation is None or self.comparisons is None:
            return FinalistOutcome.NOT_MEASURED
        if name in self.comparisons.faulty:
            return FinalistOutcome.FAULT
        if self.recommendation.ending is Ending.BASELINE_FAILED:
            return FinalistOutcome.DEFAULT_FAILED
        standing = self.recommendation.standings.get(name)
        if standing is None:
            return FinalistOutcome.NOT_MEASURED
        if name in self.recommendation.excluded:
            return FinalistOutcome.BREAKS_BOUND
        return _OUTCOMES.get(standing.ending, FinalistOutcome.NOT_BETTER)


_OUTCOMES = {Ending.USE: FinalistOutcome.CONFIRMED, Ending.NOT_SETTLED: FinalistOutcome.NOT_SETTLED}


def _judge(entry: DeclaredConfirmation, directory: Path, preference: Preference) -> Confirmed:
    base, finalists = entry.base, entry.finalists
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
        mean = trials[PEAK.trial].mean()
        return float(mean) if isinstance(mean, int | float) else math.inf
    costs = confirmed.campaign.of(confirmed.campaign.step).filter(
        variant=confirmed.winner, kind="level"
    )
    cpu, events = costs["cpu"].sum(), costs["window_events"].sum()
    return float(cpu) / float(events) if events else math.inf


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A search: ``campaign``: its tables; ``tried``: its trials; ``standings``: what trials of
    servers say of each configuration; ``confirmed``: the campaigns of the finalists; ``winner``:
    the one whose winner to run, None if no finalist is confirmed; ``declared``: whether finalists
    were chosen yet; ``knobs``: what each was worth, as the search stored it.
    """

    directory: Path
    campaign: Campaign
    preference: Preference
    tried: Sequence[Tried]
    standings: Sequence[ConfigurationResult]
    confirmed: Sequence[Confirmed]
    winner: Confirmed | None
    declared: bool
    knobs: Sequence[KnobWorth]

    @cached_property
    def estimates(self) -> Sequence[Estimated]:
        """What is likely of the configurations that ran."""
        return estimate_front(self.standings)

    @cached_property
    def surveyed(self) -> Mapping[str, int]:
        """The server's peak RSS under each workload that had a start of its own, bytes; empty if
        the experiment has no more workloads than a trial.
        """
        survey = self.campaign.facts.survey
        return {w: x.peak for w, x in survey.items() if x.peak is not None}

    @property
    def is_over(self) -> bool:
        """Whether search and confirmation have come to their own end."""
        return self.campaign.facts.ending == "planned"


def load_tuned(directory: Path) -> Tuned:
    """Read results of ``dballoc tune``. Raises UsageError if there are none, or not one trial."""
    tried = load_tried(directory)
    if not tried:
        raise UsageError(f"{directory}: no trial is finished yet; run dballoc tune first")
    campaign = read_results(directory)
    facts = campaign.facts
    try:
        preference = parse_preference(facts.preference)
    except UsageError as error:
        raise Failure(f"{directory}: damaged: preference: {error}") from None
    experiment = select_searched(campaign.experiment, facts)
    confirmed = [
        _judge(entry, directory / entry.directory, preference)
        for entry in facts.confirmations or ()
    ]
    return Tuned(
        directory=directory,
        campaign=replace(campaign, experiment=experiment),
        preference=preference,
        tried=tried,
        standings=summarize_standings(tried, "server"),
        confirmed=confirmed,
        winner=choose_winner(confirmed, preference),
        knobs=facts.knobs,
        declared=facts.confirmations is not None,
    )
