"""Confirm what a search has put forward: a campaign for each base that has finalists, declared in
the results before the first of its trials, and run as dballoc bench runs any.

The finalists share one error of 5 %, whichever campaign they are in: each campaign stores how many
the others have, and its procedure counts them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dballoc.campaign import results_directory, run_blocks
from dballoc.campaign.interim_looks import InterimLooks
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import prepare
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.recorded_facts import make_block_facts
from dballoc.campaign.ways.servers import SERVERS
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import listing
from dballoc.questions.tune import search_history
from dballoc.questions.tune.search_history import Tried
from dballoc.search.choose_finalists import choose_finalists
from dballoc.search.plan_trials import is_in_space, select_known
from dballoc.search.prepare_tune import PreparedTune
from dballoc.search.search_aim import make_search_aim
from dballoc.search.search_space import Parameters, apply_parameters
from dballoc.search.search_trials import SERVER
from dballoc.search.short_experiment import make_confirmation
from dballoc.search.weigh_knobs import weigh_knobs
from dballoc.store.facts import DeclaredConfirmation, Facts
from dballoc.store.results import Results

# Seconds that a confirmation has at least.
_LEAST = 30.0


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """One declared campaign: ``directory`` below the results directory, its ``experiment``."""

    base: str
    directory: str
    finalists: tuple[str, ...]
    experiment: Experiment


def declare_confirmations(setting: PreparedTune, out: Path) -> list[Confirmation]:
    """Choose the finalists and store their campaigns, unless they are stored already; returns them,
    none where nothing promises a gain. Raises UsageError if what is stored is no campaign of this
    search: of results nothing is run that the experiment does not ask for.
    """
    results = Results.open(out)
    try:
        facts = results.facts()
        setting = setting.select_searched(facts)
        everything = search_history.list_tried(results)
        tried = select_known(everything, setting.spaces)
        declared = facts.confirmations
        if declared is None:
            planned = _plan_confirmations(setting, results, tried)
            declared = tuple(_declare(confirmation) for confirmation in planned)
            knobs = weigh_knobs(setting.spaces, tried)
            results.change_facts(knobs=tuple(knobs), confirmations=declared)
        return [_load(entry, setting, everything, out) for entry in declared]
    finally:
        results.close()


def _plan_confirmations(
    setting: PreparedTune, results: Results, tried: Sequence[Tried]
) -> list[Confirmation]:
    """Return a campaign for each base with finalists; the budget's rest is shared by the trials
    that a block of each has.
    """
    aim = make_search_aim(setting.preference, setting.experiment.seed)
    standings = search_history.summarize_standings(tried, SERVER)
    finalists = choose_finalists(standings, aim.objective, aim.bound, setting.tune.finalists)
    assert setting.experiment.budget
    searched = results.facts().search_seconds
    rest = max(_LEAST, setting.experiment.budget - max(searched, results.spent()))
    bases = list(dict.fromkeys(f.base for f in finalists))
    parts = len(finalists) + 2 * len(bases)
    confirmations = []
    for base in bases:
        of_base = {f.variant: f.parameters for f in finalists if f.base == base}
        budget = round(rest * (len(of_base) + 2) / parts)
        confirmations.append(_make(setting, base, of_base, budget))
    return confirmations


def _make(
    setting: PreparedTune, base: str, finalists: Mapping[str, Parameters], budget: float
) -> Confirmation:
    default = setting.experiment.find(base)
    variants = [apply_parameters(default, values, name) for name, values in finalists.items()]
    return Confirmation(
        base=base,
        directory=f"confirmation/{base}",
        finalists=tuple(finalists),
        experiment=make_confirmation(setting.experiment, base, variants, budget),
    )


def _declare(confirmation: Confirmation) -> DeclaredConfirmation:
    return DeclaredConfirmation(
        base=confirmation.base,
        directory=confirmation.directory,
        finalists=confirmation.finalists,
        experiment=experiment_file.format_experiment(confirmation.experiment),
    )


def _load(
    entry: DeclaredConfirmation, setting: PreparedTune, tried: Sequence[Tried], out: Path
) -> Confirmation:
    """Return a campaign that was declared. Raises UsageError unless it has this search's base and
    configurations, and if the host no longer lets it set these.
    """
    base, origin = entry.base, str(out / entry.directory)
    strange = {t.variant for t in tried if not is_in_space(t, setting.spaces)}
    if lost := [name for name in entry.finalists if name in strange]:
        raise UsageError(
            f"{origin}: {listing(lost)}: its settings can no longer be searched here (CPUs, THP "
            "modes or versions have changed); go on where they can, or choose a new --out"
        )
    table = experiment_file.parse_table(entry.experiment, origin)
    stored = experiment_file.build_experiment(table, origin)
    configurations = {t.variant: t.parameters for t in tried if t.base == base and t.parameters}
    if base in setting.spaces and configurations.keys() >= set(entry.finalists):
        finalists = {name: configurations[name] for name in entry.finalists}
        made = _make(setting, base, finalists, stored.budget or 0.0)
        identities = map(experiment_file.compute_identity, (made.experiment, stored))
        if made.directory == entry.directory and len(set(identities)) == 1:
            return made
    raise UsageError(f"{origin}: its declared campaigns are not of this search; choose a new --out")


def run_confirmations(
    confirmations: list[Confirmation],
    out: Path,
    observer: Observer,
    write_report: Callable[[Path], object],
) -> str:
    """Run or resume the campaigns, each with its own report by ``write_report``; returns
    ``confirmed`` or ``interrupted``. UsageError or Failure; what was finished is kept.
    """
    for confirmation in confirmations:
        directory = out / confirmation.directory
        if results_directory.is_finished(directory):
            continue
        elsewhere = sum(len(c.finalists) for c in confirmations if c is not confirmation)
        kind = replace(SERVERS, make_facts=partial(_make_facts, elsewhere=elsewhere))
        names = ", ".join(confirmation.finalists)
        observer.notice(f"confirmation of {names} against {confirmation.base}: {directory}")
        setting = prepare.prepare_campaign(confirmation.experiment)
        ending = run_blocks.run_campaign(
            setting, directory, observer, looks=InterimLooks(), kind=kind
        )
        if run_blocks.has_trials(directory):
            write_report(directory)
        if ending.why == "interrupted":
            return "interrupted"
    return "confirmed"


def _make_facts(setting: PreparedCampaign, planned_blocks: dict[str, int], elsewhere: int) -> Facts:
    return replace(make_block_facts(setting, planned_blocks), compared_elsewhere=elsewhere)


def store_ending(out: Path, ending: str) -> None:
    """Store how the whole search ended, so that the next one has a directory of its own."""
    results = Results.open(out)
    try:
        results.change_facts(ending=ending, ended=time.time())
    finally:
        results.close()
