"""A search that is resumed: what its results may say, and Ctrl-C where no trial looks for it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dballoc.campaign.interruptible_session import Stop
from dballoc.campaign.trial.server_in_trial import Interrupted
from dballoc.experiment.model import Experiment, Tune
from dballoc.ground.errors import UsageError
from dballoc.questions.tune.search_history import Tried
from dballoc.search import run_confirmation, run_search
from dballoc.search.plan_trials import (
    Candidate,
    SearchAim,
    StageProgress,
    plan_next_trial,
    select_known,
)
from dballoc.search.search_space import Knob, Space
from dballoc.search.short_experiment import make_short_experiment
from dballoc.store.facts import DeclaredConfirmation

SPACE = Space(knobs=(Knob(name="arenas", least=1, most=8),), presets=())
OUT = Path("/results")


def tried(number: int, parameters: dict[str, str], base: str = "glibc", rss: int = 10**8) -> Tried:
    return Tried(
        number=number,
        stage="server",
        base=base,
        origin="search" if parameters else "default",
        variant=f"{base}-{number}" if parameters else base,
        parameters=parameters,
        fault=None,
        rss=rss,
        costs={"w": 1e-3},
        seconds=10.0,
    )


def make_setting(**changes: Any) -> Any:
    table = {
        "name": "mine",
        "baseline": "glibc",
        "workloads": ["w"],
        "threads": [8],
        "variant": [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
    }
    chosen = Experiment.model_validate(table | changes)
    return SimpleNamespace(
        experiment=make_short_experiment(chosen, Tune(), 600.0), spaces={"glibc": SPACE}
    )


TRIED = [tried(1, {}), tried(2, {"arenas": "2"}, rss=5 * 10**7), tried(3, {"arenas": "4"})]
# What no search of that space has proposed.
STRANGE = [
    tried(4, {"arenas": "9"}, rss=1000),
    tried(5, {"server.init_file": "/tmp/x"}, rss=1000),
    tried(6, {"arenas": "2"}, base="other", rss=1000),
]


def declare(**changes: Any) -> DeclaredConfirmation:
    """Return what a search stores of a confirmation of glibc-2, with some of it changed."""
    made = run_confirmation._make(make_setting(), "glibc", {"glibc-2": {"arenas": "2"}}, 300.0)
    return replace(run_confirmation._declare(made), **changes)


def load(entry: DeclaredConfirmation, trials: list[Tried] = TRIED, **changes: Any) -> Any:
    return run_confirmation._load(entry, make_setting(**changes), trials, OUT)


def test_what_was_declared_is_run_on() -> None:
    found = load(declare())
    assert (found.base, found.directory, found.finalists) == (
        "glibc",
        "confirmation/glibc",
        ("glibc-2",),
    )
    assert found.experiment.budget == 300.0
    assert [v.name for v in found.experiment.variant] == ["glibc", "glibc-2"]
    assert found.experiment.find("glibc-2").tunables == {"arenas": "2"}


@pytest.mark.parametrize(
    ("entry", "trials"),
    [
        (
            declare(
                experiment=declare().experiment.replace(
                    "[server]\n", '[server]\nbasedir = "/tmp/evil"\n', 1
                )
            ),
            TRIED,
        ),
        (
            declare(experiment=declare().experiment.replace('arenas = "2"', 'arenas = "3"')),
            TRIED,
        ),
        (declare(directory="confirmation/jemalloc"), TRIED),
        (declare(base="jemalloc"), TRIED),
        (declare(finalists=("glibc-3",)), TRIED),
        (declare(finalists=("glibc-7",)), TRIED),
        (declare(), TRIED[:1]),
        (declare(base="other"), [*TRIED, *STRANGE]),
    ],
)
def test_what_the_experiment_does_not_ask_for_is_not_run(
    entry: DeclaredConfirmation, trials: list[Tried]
) -> None:
    with pytest.raises(
        UsageError, match="declared campaigns are not of this search; choose a new --out"
    ):
        load(entry, trials)


def test_what_cannot_be_set_here_any_more_is_named() -> None:
    with pytest.raises(UsageError, match="glibc-4: its settings can no longer be searched here"):
        load(declare(finalists=("glibc-4",)), [*TRIED, *STRANGE])
    twice = replace(STRANGE[1], variant="glibc-2")
    with pytest.raises(UsageError, match="glibc-2: its settings can no longer be searched here"):
        load(declare(), [*TRIED, twice])


def test_configurations_of_another_space_are_neither_planned_for_nor_put_forward() -> None:
    assert select_known([*TRIED, *STRANGE], {"glibc": SPACE}) == TRIED
    aim = SearchAim(objective="memory", bound=0.03, seed=1)
    pace = StageProgress(progress=0.9, trials=20)
    trials = [tried(0, {}), *TRIED]
    planned = plan_next_trial({"glibc": SPACE}, trials, "server", aim, pace)
    assert planned
    assert planned == plan_next_trial({"glibc": SPACE}, [*trials, *STRANGE], "server", aim, pace)


def test_ctrl_c_after_a_trials_last_look_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial is finished and kept; nothing else is begun."""
    stop = Stop()
    search = object.__new__(run_search._Search)
    search.session = SimpleNamespace(stop=stop)  # type: ignore[assignment]
    search.setting = SimpleNamespace(pairable={})  # type: ignore[assignment]
    search.results = search.aim = None  # type: ignore[assignment]
    search.seconds, search.began = 1e9, 0.0
    monkeypatch.setattr(search, "_show", lambda *_: None)
    monkeypatch.setattr(run_search.search_history, "list_tried", lambda _: [])
    candidate = Candidate(base="glibc", origin="search", parameters={}, variant="glibc")
    monkeypatch.setattr(run_search, "plan_next_trial", lambda *_: candidate)
    begun = []

    def try_candidate(_: Candidate, number: int) -> None:
        begun.append(number)
        stop.in_trial = True
        stop()
        stop.in_trial = False

    with pytest.raises(Interrupted):
        search._run_stage("server", {"glibc": SPACE}, 10.0, try_candidate)
    assert begun == [1]
