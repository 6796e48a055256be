"""The time that would settle an open answer, against simulated campaigns and by its laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit
from test_report_answer import CPU, EQUAL, LOWER, OPEN, PEAK, TPS, comparisons

from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY
from dballoc.questions.campaign.answer.recommendation import Recommendation, recommend
from dballoc.questions.campaign.answer.settling_time import (
    LONGEST,
    DesignPace,
    OpenFigure,
    SettlingTime,
    Way,
    compute_settling,
    list_open_figures,
)
from dballoc.questions.compare.baseline_comparison import Comparisons
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import declare_procedure, declare_shares
from dballoc.questions.statistics.detectable_difference import (
    POWER,
    count_blocks_to_exclude,
    has_power,
)


@pytest.mark.parametrize(("scatter", "distance"), [(0.02, 0.01), (0.05, 0.03), (0.01, 0.03)])
def test_so_many_blocks_exclude_the_bound_in_four_of_five_campaigns(
    scatter: float, distance: float
) -> None:
    blocks = count_blocks_to_exclude(scatter, distance, 0.99)
    assert blocks is not None

    def share(n: int) -> float:
        logs = np.random.default_rng(7).normal(-distance, scatter, (20_000, n))
        half = stdtrit(n - 1, 0.995) * logs.std(axis=1, ddof=1) / math.sqrt(n)
        return float((logs.mean(axis=1) + half < 0).mean())

    assert share(blocks) >= POWER - 0.01
    assert share(blocks - 1) < POWER + 0.01


@given(st.floats(0.001, 0.5), st.floats(0.0005, 0.5), st.floats(0.9, 0.9999))
def test_the_fewest_blocks_are_enough_and_one_fewer_is_not(
    scatter: float, distance: float, confidence: float
) -> None:
    blocks = count_blocks_to_exclude(scatter, distance, confidence)
    if blocks is not None:
        assert has_power(scatter, distance, blocks, confidence)
        assert not has_power(scatter, distance, blocks - 1, confidence)


def figure(distance: float, scatter: float = 0.03, design: str = "solo") -> OpenFigure:
    return OpenFigure(
        design=design,
        scatter=scatter,
        distance=distance,
        confidence=lambda _: 0.99,
        new_confidence=lambda _: 0.99,
    )


PACES = {"solo": DesignPace(blocks=10, seconds=60.0), "duet": DesignPace(blocks=10, seconds=30.0)}
# The looks of extensions of ten planned blocks.
GOALS = [{"solo": n, "duet": n} for n in (15, 20, 30, 40)]


def test_a_finished_campaign_goes_on_to_the_first_look_that_is_enough() -> None:
    # More than ten blocks of each are needed: 1.5 times the ten planned are enough.
    found = compute_settling([figure(0.04), figure(0.04, design="duet")], PACES, GOALS)
    assert found == SettlingTime(way=Way.EXTEND, minutes=math.ceil((5 * 60 + 5 * 30) / 60))


def test_an_extension_goes_on_with_the_designs_that_are_open_alone() -> None:
    found = compute_settling([figure(0.033, design="duet")], PACES, GOALS)
    assert found == SettlingTime(way=Way.EXTEND, minutes=math.ceil(5 * 30 / 60), design="duet")
    three = {**PACES, "turns": DesignPace(blocks=10, seconds=25.0)}
    goals = [{**goal, "turns": goal["solo"]} for goal in GOALS]
    found = compute_settling([figure(0.033, design="turns")], three, goals)
    assert found == SettlingTime(way=Way.EXTEND, minutes=math.ceil(5 * 25 / 60), design="turns")
    # Other answers may wait for other designs of the same blocks.
    found = compute_settling([figure(0.033, design="turns")], three, goals, shares_blocks=True)
    assert found == SettlingTime(way=Way.EXTEND, minutes=math.ceil(5 * (60 + 30 + 25) / 60))
    # No word stands for these two alone.
    found = compute_settling([figure(0.04), figure(0.04, design="turns")], three, goals)
    assert found == SettlingTime(way=Way.EXTEND, minutes=math.ceil(5 * (60 + 30 + 25) / 60))


def test_more_than_the_last_look_takes_a_new_campaign_of_so_many_blocks() -> None:
    blocks = count_blocks_to_exclude(0.03, 0.012, 0.99)
    assert blocks is not None
    assert blocks > 40
    minutes = math.ceil(1.1 * blocks * (60 + 30) / 60)
    found = compute_settling([figure(0.012)], PACES, GOALS)
    assert found == SettlingTime(way=Way.NEW_CAMPAIGN, minutes=minutes, blocks=blocks)
    few = count_blocks_to_exclude(0.03, 0.033, 0.99) or 0
    assert compute_settling([figure(0.033)], PACES, []) == SettlingTime(
        way=Way.NEW_CAMPAIGN, minutes=math.ceil(1.1 * few * 1.5), blocks=few
    )


def test_a_decided_design_is_not_extended() -> None:
    goals = [{"duet": n} for n in (15, 20)]
    found = compute_settling([figure(0.033)], PACES, goals)
    assert found
    assert found.way is Way.NEW_CAMPAIGN
    assert compute_settling([figure(0.033, design="duet")], PACES, goals) == SettlingTime(
        way=Way.EXTEND, minutes=math.ceil(5 * 30 / 60)
    )


def test_a_new_campaign_has_the_level_of_its_own_looks() -> None:
    """Of 60 planned blocks, 40 spend some of the error that six planned ones have at the end."""
    shares = declare_shares(list_judged(["solo"]), variants=3, workloads=1)

    def level(blocks: int) -> float:
        return declare_procedure(blocks, shares).levels["rss_peak"]

    open_figure = replace(figure(0.012), new_confidence=level)
    found = compute_settling([open_figure], {"solo": PACES["solo"]}, [])
    assert found
    assert found.blocks
    assert found.blocks > 40
    assert has_power(0.03, 0.012, found.blocks, level(found.blocks))
    assert found.blocks > (count_blocks_to_exclude(0.03, 0.012, level(6)) or 0)


def test_more_than_eight_hours_is_not_on_this_host() -> None:
    assert compute_settling([figure(0.003)], PACES, GOALS) == SettlingTime(way=Way.NOT_HERE)
    assert compute_settling([figure(1e-9)], PACES, GOALS) == SettlingTime(way=Way.NOT_HERE)
    slow = {"solo": DesignPace(blocks=6, seconds=LONGEST)}
    assert compute_settling([figure(0.5)], slow, []) == SettlingTime(way=Way.NOT_HERE)


def test_nothing_open_needs_no_time() -> None:
    assert compute_settling([], PACES, GOALS) is None


def test_several_open_figures_take_longer_than_each() -> None:
    """All of them together are to be settled with the power that is printed."""
    lone = compute_settling([figure(0.02)], PACES, [])
    both = compute_settling([figure(0.02), figure(0.02, design="duet")], PACES, [])
    assert lone
    assert both
    assert lone.minutes
    assert both.minutes
    assert both.minutes > lone.minutes


def judged(found: Comparisons) -> Recommendation:
    return recommend(found, "glibc", LEAST_MEMORY)


def test_what_is_open_is_what_is_not_shown() -> None:
    found = comparisons({"a": (OPEN, LOWER)}, metrics=(TPS, CPU, PEAK))
    figures = list_open_figures(judged(found))
    assert [f.design for f in figures] == ["solo", "duet"]
    # From the estimate to 3 % less throughput.
    assert figures[0].distance == pytest.approx(math.log(math.sqrt(0.96 * 1.05) / 0.97))
    assert list_open_figures(judged(comparisons({"a": (EQUAL, LOWER)}))) == []


def test_an_unshown_gain_is_open_by_its_own_bound() -> None:
    found = comparisons({"a": (EQUAL, (0.92, 1.02))})
    (gain,) = list_open_figures(judged(found))
    assert gain.distance == pytest.approx(math.log(0.99 / math.sqrt(0.92 * 1.02)))
    assert gain.confidence(6) == pytest.approx(found.procedures["solo"].after(6).confidence)
