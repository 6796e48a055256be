"""All that a report says of a search and its confirmation."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dballoc.analysis.campaign_tables import Campaign, read_results
from dballoc.analysis.decisions.preference import Preference, parse_preference
from dballoc.analysis.tune.confirmed import Confirmed, choose_winner, load_confirmed
from dballoc.analysis.tune.estimated_front import Estimated, estimate_front
from dballoc.analysis.tune.search_history import (
    Standing,
    Tried,
    load_tried,
    read_survey,
    select_searched,
    summarize_standings,
)
from dballoc.errors import Failure, UsageError
from dballoc.store.campaign_facts import CONFIRMATIONS, KNOBS, PREFERENCE


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
    standings: Sequence[Standing]
    confirmed: Sequence[Confirmed]
    winner: Confirmed | None
    declared: bool
    knobs: Sequence[dict[str, Any]]

    @cached_property
    def estimates(self) -> Sequence[Estimated]:
        """What is likely of the configurations that ran."""
        return estimate_front(self.standings)

    @cached_property
    def surveyed(self) -> Mapping[str, int]:
        """The server's peak RSS under each workload that had a start of its own, bytes; empty if
        the experiment has no more workloads than a trial.
        """
        survey = read_survey(self.campaign.facts)
        return {w: x.peak for w, x in survey.items() if x.peak is not None}

    @property
    def is_over(self) -> bool:
        """Whether search and confirmation have come to their own end."""
        return self.campaign.facts.get("ending") == "planned"


def load_tuned(directory: Path) -> Tuned:
    """Read results of ``dballoc tune``. UsageError if there are none, or not one trial."""
    tried = load_tried(directory)
    if not tried:
        raise UsageError(f"{directory}: no trial is finished yet; run dballoc tune first")
    campaign = read_results(directory)
    try:
        preference = parse_preference(campaign.facts.get(PREFERENCE))
    except UsageError as error:
        raise Failure(f"{directory}: damaged: {PREFERENCE}: {error}") from None
    experiment = select_searched(campaign.experiment, campaign.facts)
    confirmed = load_confirmed(directory, preference)
    return Tuned(
        directory=directory,
        campaign=replace(campaign, experiment=experiment),
        preference=preference,
        tried=tried,
        standings=summarize_standings(tried, "server"),
        confirmed=confirmed,
        winner=choose_winner(confirmed, preference),
        knobs=json.loads(campaign.facts.get(KNOBS, "[]")),
        declared=CONFIRMATIONS in campaign.facts,
    )
