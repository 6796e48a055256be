"""Confirm what a search has put forward: a campaign for each base that has finalists, declared in
the results before the first of its trials, and run as dballoc bench runs any.

The finalists share one error of 5 %, whichever campaign they are in: each campaign stores how many
the others have, and its procedure counts them.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dballoc.analysis.tune import search_history
from dballoc.campaign import results_directory, run_blocks
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation import prepare
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.recorded_facts import make_block_facts
from dballoc.campaign.run_blocks import SERVERS
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.store.campaign_facts import CONFIRMATIONS, FINALISTS_ELSEWHERE, KNOBS
from dballoc.store.results import Results
from dballoc.tune.choose_finalists import choose_finalists
from dballoc.tune.prepare_tune import PreparedTune
from dballoc.tune.search_aim import make_search_aim
from dballoc.tune.search_space import apply_parameters
from dballoc.tune.search_trials import SERVER
from dballoc.tune.short_experiment import make_confirmation
from dballoc.tune.weigh_knobs import weigh_knobs

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
    none where nothing promises a gain.
    """
    results = Results.open(out)
    try:
        if CONFIRMATIONS not in results.facts():
            confirmations = _plan_confirmations(setting, results)
            tried = search_history.list_tried(results)
            results.set_fact(KNOBS, json.dumps(weigh_knobs(setting.spaces, tried)))
            results.set_fact(CONFIRMATIONS, json.dumps([_dump(c) for c in confirmations]))
        stored = json.loads(results.checked_facts()[CONFIRMATIONS])
        return [_load(entry, out) for entry in stored]
    finally:
        results.close()


def _plan_confirmations(setting: PreparedTune, results: Results) -> list[Confirmation]:
    """Return a campaign for each base with finalists; the budget's rest is shared by the trials
    that a block of each has.
    """
    aim = make_search_aim(setting.preference, setting.experiment.seed)
    standings = search_history.summarize_standings(search_history.list_tried(results), SERVER)
    finalists = choose_finalists(standings, aim.objective, aim.bound, setting.tune.finalists)
    assert setting.experiment.budget
    rest = max(_LEAST, setting.experiment.budget - results.spent())
    bases = list(dict.fromkeys(f.base for f in finalists))
    parts = len(finalists) + 2 * len(bases)
    confirmations = []
    for base in bases:
        of_base = [f for f in finalists if f.base == base]
        default = setting.experiment.find(base)
        variants = [apply_parameters(default, f.parameters, f.variant) for f in of_base]
        budget = round(rest * (len(of_base) + 2) / parts)
        confirmations.append(
            Confirmation(
                base=base,
                directory=f"confirmation/{base}",
                finalists=tuple(f.variant for f in of_base),
                experiment=make_confirmation(setting.experiment, base, variants, budget),
            )
        )
    return confirmations


def _dump(confirmation: Confirmation) -> dict[str, object]:
    return {
        "base": confirmation.base,
        "directory": confirmation.directory,
        "finalists": list(confirmation.finalists),
        "experiment": experiment_file.format_experiment(confirmation.experiment),
    }


def _load(entry: dict[str, object], out: Path) -> Confirmation:
    origin = str(out / str(entry["directory"]))
    table = experiment_file.parse_table(str(entry["experiment"]), origin)
    finalists = entry["finalists"]
    assert isinstance(finalists, list)
    return Confirmation(
        base=str(entry["base"]),
        directory=str(entry["directory"]),
        finalists=tuple(map(str, finalists)),
        experiment=experiment_file.build_experiment(table, origin),
    )


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
        ending = run_blocks.run_campaign(setting, directory, observer, kind=kind)
        if run_blocks.has_trials(directory):
            write_report(directory)
        if ending.why == "interrupted":
            return "interrupted"
    return "confirmed"


def _make_facts(
    setting: PreparedCampaign, planned_blocks: dict[str, int], elsewhere: int
) -> dict[str, str]:
    return make_block_facts(setting, planned_blocks) | {FINALISTS_ELSEWHERE: str(elsewhere)}


def store_ending(out: Path, ending: str) -> None:
    """Store how the whole search ended, so that the next one has a directory of its own."""
    results = Results.open(out)
    try:
        results.set_fact("ending", ending)
        results.set_fact("ended", str(time.time()))
    finally:
        results.close()
