"""The benchmark of tune on servers says by its complaints what was not as promised."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.questions.tune.search_history import Origin, Tried

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from tune_servers import (
    FOUR,
    Figure,
    Outcome,
    find_best_preset,
    judge_four,
    list_complaints,
    make_preset_experiment,
    read_outcome,
)

BUDGET = 1800.0


def figure(ratio: float, half: float | None = 0.01) -> Figure:
    if half is None:
        return Figure(ratio=ratio, low=None, high=None)
    return Figure(ratio=ratio, low=ratio - half, high=ratio + half)


def outcome(
    memory: Figure | None = None, *costs: Figure, answer: str = "Use it", seconds: float = 1700.0
) -> Outcome:
    return Outcome(
        answer=answer,
        seconds=seconds,
        settings=None if memory is None else {"arena_max": "1"},
        memory=memory,
        costs={f"cpu:{i}": cost for i, cost in enumerate(costs)},
    )


KEEP = outcome(answer="Keep the defaults: no finalist is confirmed")


@pytest.mark.parametrize(
    ("came_out", "complaints"),
    [
        (outcome(figure(0.56), figure(1.0)), 0),
        (outcome(figure(0.61), figure(1.0)), 1),
        (outcome(figure(0.56, None), figure(1.0)), 1),
        (outcome(figure(0.56, 0.5), figure(1.0)), 1),
        (outcome(figure(0.56), figure(1.0), seconds=2000.0), 1),
        # Of two workloads one is not shown to keep to the bound, or nothing is of either.
        (outcome(figure(0.56), figure(1.0), figure(1.025)), 2),
        (outcome(figure(0.56), figure(1.0), figure(1.0, None)), 2),
        (outcome(figure(0.56)), 2),
        (KEEP, 1),
        (outcome(answer="No answer: glibc with its defaults failed"), 2),
    ],
)
def test_what_the_small_server_is_held_to(came_out: Outcome, complaints: int) -> None:
    for name in ("myrocks", "withheld"):
        assert len(list_complaints(name, came_out, BUDGET)) == complaints


def test_jemalloc_is_held_to_its_best_preset() -> None:
    good = outcome(figure(0.8), figure(1.0))
    assert list_complaints("jemalloc", good, BUDGET, figure(1.005)) == []
    assert list_complaints("jemalloc", KEEP, BUDGET, figure(0.99)) == []
    [lower] = list_complaints("jemalloc", good, BUDGET, figure(1.02))
    assert "its best preset is lower" in lower
    [nothing] = list_complaints("jemalloc", good, BUDGET)
    assert "nothing to compare with" in nothing


def test_three_of_four_gain_and_the_fourth_says_that_there_is_nothing() -> None:
    gain, little = outcome(figure(0.85), figure(1.0)), outcome(figure(0.95), figure(1.0))
    dear = outcome(figure(0.7), figure(1.05))
    assert judge_four(dict(zip(FOUR, (gain, gain, gain, KEEP), strict=True)))
    for fourth in (little, dear, KEEP):
        assert judge_four(dict(zip(FOUR, (gain, gain, fourth, KEEP), strict=True))) is False
    assert judge_four({FOUR[0]: gain}) is None
    assert list_complaints("big-sorts", KEEP, BUDGET) == []
    assert list_complaints("big-sorts", little, BUDGET) == []
    assert len(list_complaints("big-sorts", dear, BUDGET)) == 1
    assert len(list_complaints("big-sorts", outcome(answer="No answer: …"), BUDGET)) == 1


def test_the_winner_is_read_and_not_another_confirmed_finalist() -> None:
    def finalist(name: str, memory: float) -> dict[str, Any]:
        ratios = {
            key: {"ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01}
            for key, ratio in (("rss_peak", memory), ("cpu:a", 1.0), ("cpu:b", 1.01))
        }
        return {"variant": name, "base": "glibc", "confirmed": True, "ratios": ratios}

    document = {
        "over": True,
        "answer": "Use glibc",
        "winner": "glibc-2",
        "base": "glibc",
        "settings": {"arena_max": "1"},
        "finalists": [finalist("glibc-1", 0.9), finalist("glibc-2", 0.56)],
    }
    read = read_outcome(document, 60.0)
    assert read
    assert read.memory
    assert (read.memory.ratio, set(read.costs), read.seconds) == (0.56, {"cpu:a", "cpu:b"}, 60.0)
    nothing = read_outcome({**document, "winner": None, "base": None, "settings": None}, 1.0)
    assert nothing
    assert (nothing.memory, nothing.costs) == (None, {})
    assert read_outcome({**document, "over": False}, 1.0) is None


def trial(number: int, origin: Origin, value: str, memory: float, cost: float) -> Tried:
    return Tried(
        number=number,
        stage="server",
        base="glibc",
        origin=origin,
        variant=f"glibc-{value}" if value else "glibc",
        parameters={"narenas": value} if value else {},
        fault=None,
        rss=round(1e8 * memory),
        costs={"a": 1e-3 * cost},
        seconds=9.0,
    )


def test_the_best_preset_keeps_to_the_bound() -> None:
    defaults = [trial(i, "default", "", 1.0 + i / 1000, 1.0) for i in range(4)]
    tried = [
        *defaults,
        *(trial(10 + i, "preset", "1", 0.5, 1.4) for i in range(3)),
        *(trial(20 + i, "preset", "64", 0.8, 1.0) for i in range(3)),
        *(trial(30 + i, "search", "900", 0.7, 1.0) for i in range(3)),
    ]
    assert find_best_preset(tried) == {"narenas": "64"}
    assert find_best_preset(tried[:7]) is None


def test_the_winner_is_compared_with_the_preset_in_a_campaign_of_its_own(
    experiment: Callable[..., Experiment],
) -> None:
    searched = experiment(variant=[{"name": "glibc"}], tune={}, budget="30m")
    chosen = make_preset_experiment(searched, {"arena_max": "1"}, {})
    text = experiment_file.format_experiment(chosen)
    read = experiment_file.build_experiment(experiment_file.parse_table(text, "x"), "x")
    assert (read.baseline, read.design, read.budget, read.tune) == ("preset", "solo", None, None)
    settings = {v.name: v.tunables for v in read.variant}
    assert settings == {"preset": {"arena_max": "1"}, "winner": {}}
