"""Short starts show which workloads a search's trials have."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from example_results import BARE_FACTS
from simulated_hosts import Notices

from dballoc.experiment.model import Experiment, Tune
from dballoc.search.run_search import survey_workloads
from dballoc.search.search_aim import parse_aim
from dballoc.search.short_experiment import make_short_experiment
from dballoc.store.facts import Facts, Surveyed
from dballoc.store.results import TrialRecord
from dballoc.store.rows import MeasuredTrial, StepRow

MIB = 2**20
NAMES = ["reads", "sorts", "writes"]


class Starts:
    """Answers with starts in which sorts have most memory; those of ``faulty`` workloads fail."""

    def __init__(self, *faulty: str) -> None:
        self.faulty = faulty
        self.begun: list[str] = []

    def run_survey(self, survey: Experiment) -> TrialRecord:
        [workload] = survey.workloads
        self.begun.append(workload)
        if workload in self.faulty:
            return TrialRecord(
                trial=MeasuredTrial(started=1.0, outcome="fault", fault="died", rss_peak=10**9)
            )
        peak = {"reads": 210, "sorts": 300, "writes": 305}[workload] * MIB
        record = TrialRecord(trial=MeasuredTrial(started=1.0, rss_peak=peak))
        longest = 2000.0 if workload == "writes" else 50.0
        record.rows += [
            StepRow(step=1, kind="warmup", t=0.0, seconds=1.0, latency_max=9e3),
            StepRow(step=2, kind="level", t=1.0, seconds=1.0, latency_max=longest),
        ]
        return record


class Store:
    """Keeps what is stored."""

    def __init__(self, **survey: Surveyed) -> None:
        self.kept = replace(BARE_FACTS, survey=survey)

    def change_facts(self, **changes: Any) -> None:
        self.kept = replace(self.kept, **changes)

    def facts(self) -> Facts:
        return self.kept


def survey(starts: Starts, facts: Store, aim: str = "memory") -> tuple[list[str], list[str]]:
    """Return the workloads that the trials of a short search have, and what the user is told."""
    chosen = Experiment.model_validate(
        {
            "name": "mine",
            "baseline": "glibc",
            "workloads": NAMES,
            "threads": [8],
            "variant": [{"name": "glibc"}],
        }
    )
    setting: Any = SimpleNamespace(
        experiment=make_short_experiment(chosen, Tune(), 600.0), preference=parse_aim(aim)
    )
    trials: Any = starts
    results: Any = facts
    notices = Notices()
    survey_workloads(setting, trials, results, notices)
    return [*(facts.kept.searched_workloads or ())], notices.texts


def test_trials_have_what_has_most_memory_and_short_events() -> None:
    starts, facts = Starts(), Store()
    searched, texts = survey(starts, facts)
    assert searched == ["sorts"]
    assert starts.begun == NAMES
    assert texts == [
        "glibc: 3 short starts show under which workloads it has most memory",
        "trials have sorts (peak RSS 300 MiB)",
    ]


def test_trials_have_what_the_aim_names() -> None:
    assert survey(Starts(), Store(), "rss, writes:cpu<=1.02")[0] == ["writes"]


def test_a_start_that_fails_is_not_chosen_for_its_memory() -> None:
    assert survey(Starts("sorts"), Store())[0] == ["reads"]
    searched, texts = survey(Starts(*NAMES), Store())
    assert (searched, texts[1]) == (["writes"], "trials have writes")


def test_a_survey_is_resumed() -> None:
    facts = Store()
    survey(Starts(), facts)
    facts = Store(**{w: x for w, x in facts.kept.survey.items() if w != "sorts"})
    starts = Starts()
    searched, texts = survey(starts, facts)
    assert searched == ["sorts"]
    assert starts.begun == ["sorts"]
    assert texts[0] == "glibc: 1 short start shows under which workloads it has most memory"
