"""The front of a search: of what is likely, with how sure it is, and not of readings."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.document.charts import Variants
from dballoc.questions.tune.estimate_effects import (
    Estimated,
    Likely,
    estimate_effects,
    estimate_front,
    estimate_settings,
)
from dballoc.questions.tune.figures import load_tuned
from dballoc.questions.tune.search_history import (
    ConfigurationResult,
    Ratios,
    find_front,
    list_front,
)
from dballoc.questions.tune.sections import draw_front, tabulate_standings


def standing(variant: str, *readings: tuple[float, float], **changes: Any) -> ConfigurationResult:
    parameters = changes.pop("parameters", {variant: "on"})
    ratios = tuple(Ratios(*r) for r in readings)
    return ConfigurationResult(
        base="glibc", variant=variant, parameters=parameters, readings=ratios, **changes
    )


def default(scatter: float = 0.02) -> ConfigurationResult:
    readings = [(scatter * sign, 3 * scatter * sign) for sign in (-1, 1) * 3]
    return standing("glibc", *readings, parameters={})


def by_name(estimates: list[Estimated]) -> dict[str, Estimated]:
    return {e.standing.variant: e for e in estimates}


def test_luck_of_one_reading_is_not_the_front() -> None:
    """60 configurations without any effect, each read once: the lowest is taken for half of it."""
    chance = np.random.default_rng(1)
    lucky = [standing(f"s{i}", tuple(chance.normal(0, (0.02, 0.06)))) for i in range(60)]
    lowest = min(s.memory or 0.0 for s in lucky)
    estimates = estimate_front([default(), *lucky])
    assert lowest < -0.04
    assert min(s.memory or 0.0 for s in list_front(lucky)) == lowest
    assert min(e.memory.mean for e in estimates) > lowest / 2
    assert sum(e.memory.is_measurable for e in estimates) <= 3


def test_what_saves_is_on_the_front_and_duets_say_what_it_costs() -> None:
    """``dear`` read cheaper than ``cheap``, alone; duets show what they cost."""
    idle = [standing(f"idle{i}", (0.0, 0.1 * (-1) ** i), (0.01, 0.0)) for i in range(6)]
    pair = [
        standing("dear", (-0.29, -0.1), duets=(0.08, 0.081)),
        standing("cheap", (-0.3, 0.1), duets=(0.0, 0.001)),
    ]
    estimates = by_name(estimate_front([default(), *idle, *pair]))
    assert estimates["cheap"].on_front
    assert not estimates["dear"].on_front
    assert estimates["cheap"].front_chance > 0.9 > 0.5 > estimates["dear"].front_chance
    assert estimates["cheap"].memory.is_measurable
    assert estimates["cheap"].memory.ratios[0] == pytest.approx(math.exp(-0.3), abs=0.05)
    of_default = estimates["glibc"]
    assert (of_default.memory, of_default.cost) == (Likely(mean=0.0, low=0.0, high=0.0),) * 2


def test_what_did_not_run_has_no_place() -> None:
    assert estimate_front([standing("x", (-0.5, 0.0))]) == []
    failed = standing("x", faults=1)
    [alone] = estimate_front([default(), failed])
    assert (alone.standing.variant, alone.on_front, alone.front_chance) == ("glibc", True, 1.0)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=8))
def test_on_the_front_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    front = [points[i] for i in find_front(points)]
    for memory, cost in points:
        assert any(m <= memory and c <= cost for m, c in front)
    for place, (memory, cost) in enumerate(front):
        others = front[:place] + front[place + 1 :]
        assert not any(m <= memory and c <= cost for m, c in others)


def test_the_chances_of_a_front_are_those_of_its_draws() -> None:
    """Of two that differ from nothing alone, each is on the front where the other is not better."""
    pair = [standing("a", *[(-0.1, 0.0)] * 4), standing("b", *[(-0.1, 0.0)] * 4)]
    chances = [e.front_chance for e in estimate_front([default(), *pair])]
    assert chances[0] < chances[1]
    assert chances[1] == pytest.approx(chances[2], abs=0.1)
    assert 1.0 <= sum(chances[1:]) <= 2.0


def test_a_setting_is_weighed_without_what_only_its_configurations_do() -> None:
    """Both pairs save, and so does ``gain`` in them; what they do together is theirs."""
    pairs = [
        standing(f"p{i}", *[(-0.2 + 0.05 * (-1) ** i, 0.0)] * 4,
                 parameters={"gain": "1", f"idle{i}": "1"})
        for i in range(4)
    ]  # fmt: skip
    alone = estimate_settings(default(), pairs, [("gain", "1"), ("idle0", "1")], "memory")
    untried = standing("gain", parameters={"gain": "1"})
    with_own = estimate_effects(default(), [*pairs, untried], "memory")
    assert alone.means[0] == pytest.approx(with_own.means[-1])
    assert alone.means[0] < -0.1 < alone.means[1]
    assert alone.covariance[0, 0] < with_own.covariance[-1, -1]


def test_the_report_draws_the_front_of_what_is_likely(make: Callable[..., Path]) -> None:
    """One reading of 34 % less in a search whose other trials scatter as much."""
    facts = {"kind": "tune", "preference": "memory,cpu<=1.03"}
    path = make(
        "search",
        blocks=8,
        design="solo",
        threads=[1],
        tune={},
        sql=(
            *(f"INSERT OR REPLACE INTO campaign VALUES ('{k}', '{v}')" for k, v in facts.items()),
            "INSERT INTO candidate SELECT trial, 'server', 'glibc', "
            "iif(variant = 'glibc', 'default', 'search'), "
            "iif(variant = 'glibc', '{}', json_object(variant, 'on')) FROM trial "
            "WHERE variant <> 'tuned' OR block = 2",
            "UPDATE trial SET rss_peak = 100000000 + 40000000 * ((block % 2) * 2 - 1)",
        ),
    )
    tuned = load_tuned(path)
    reading = next(s for s in tuned.standings if s.variant == "tuned")
    assert (reading.trials, reading.memory) == (1, pytest.approx(math.log(60 / 140) / 2))
    [points] = draw_front(tuned, Variants(["glibc"])).chart["datasets"].values()
    shown = {row["name"]: row for row in points}
    assert shown["tuned"]["memory_low"] < shown["tuned"]["memory"] < shown["tuned"]["memory_high"]
    assert shown["tuned"]["memory"] > 0.85
    cells = {row[0]: row for row in tabulate_standings(tuned).rows}
    assert cells["tuned"][2].startswith(f"{shown['tuned']['memory']:.3f} [")
