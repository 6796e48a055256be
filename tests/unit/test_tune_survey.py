"""One start shows which workloads a search's trials have."""

from types import SimpleNamespace
from typing import Any

from dballoc.campaign.observer import Observer
from dballoc.experiment.model import Experiment, Tune
from dballoc.store.results import TrialRecord
from dballoc.tune.search_aim import parse_aim
from dballoc.tune.short_experiment import make_short_experiment
from dballoc.tune.survey_workloads import survey_workloads

MIB = 2**20
NAMES = ["reads", "sorts", "writes"]


class Notices(Observer):
    """Keeps what the user is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


class Starts:
    """Answers with one start in which sorts raise memory; ``fault``: or with this."""

    def __init__(self, fault: str | None = None) -> None:
        self.fault = fault
        self.surveys: list[Experiment] = []

    def run_survey(self, survey: Experiment) -> TrialRecord:
        self.surveys.append(survey)
        if self.fault:
            row = {"outcome": "fault", "fault": "died", "fault_text": self.fault}
            return TrialRecord(trial=row)
        peaks = {"reads": 210, "sorts": 300, "writes": 305}
        record = TrialRecord(trial={"outcome": "ok", "rss_start": 100 * MIB})
        record.steps = [
            {"kind": "warmup", "workload": "reads", "rss_peak": 200 * MIB, "events": 500},
            *(
                {"kind": "level", "workload": w, "rss_peak": peaks[w] * MIB, "events": 500}
                for w in survey.workloads
            ),
        ]
        return record


def survey(starts: Starts, aim: str = "memory") -> tuple[list[str], list[str]]:
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
        experiment=make_short_experiment(chosen, Tune(), 600.0),
        tune=Tune(),
        preference=parse_aim(aim),
    )
    notices, trials = Notices(), starts
    searched = survey_workloads(setting, trials, notices)  # type: ignore[arg-type]
    return searched, notices.texts


def test_trials_have_what_raised_memory_after_the_warm_up() -> None:
    starts = Starts()
    searched, texts = survey(starts)
    assert searched == ["sorts"]
    assert texts[0].startswith("glibc: one start with all 3 workloads shows")
    assert texts[1] == "trials have sorts (+90 MiB)"
    [experiment] = starts.surveys
    assert (experiment.workloads, experiment.warm) == (NAMES, ["reads"])


def test_trials_have_what_the_aim_names() -> None:
    assert survey(Starts(), "rss, writes:cpu<=1.02")[0] == ["writes"]


def test_a_start_that_fails_chooses_nothing() -> None:
    searched, texts = survey(Starts("the server died"))
    assert searched == ["writes"]
    assert texts[1] == "it failed: the server died; trials have writes, evenly chosen"
