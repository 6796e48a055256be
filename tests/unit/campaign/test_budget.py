"""How a budget is shared among the designs: laws that hold whatever blocks take, and the demo's."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.ways import budget, usual_blocks
from dballoc.campaign.ways.budget import DesignCosts, Hurdle, choose_blocks, compute_budget_share
from dballoc.campaign.ways.way import BlockEstimate
from dballoc.experiment.designs import Design
from dballoc.questions.compare.duet_plan import BlockCosts

ALL = tuple(Design)


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What blocks take, in seconds; to be changed."""
    seconds = {"solo": 34.0, "duet": 20.0, "turns": 9.0, "round": 1.5, "pilot": 17.0}
    monkeypatch.setattr(
        usual_blocks,
        "estimate_solo_block",
        lambda _: BlockEstimate(blocks=1, trials=6, seconds=seconds["solo"], on_purpose=27.0),
    )
    monkeypatch.setattr(
        usual_blocks, "estimate_duet_costs", lambda _: BlockCosts(seconds["duet"], 0.0, 5, 1)
    )
    monkeypatch.setattr(usual_blocks, "estimate_pilot_seconds", lambda _: seconds["pilot"])
    monkeypatch.setattr(
        usual_blocks, "estimate_turns_costs", lambda _: (seconds["turns"], seconds["round"])
    )
    return seconds


def make_setting(seconds: float | None, designs: tuple[Design, ...] = ALL, **more: Any) -> Any:
    """What the budget asks of a campaign of five variants."""
    experiment = SimpleNamespace(
        budget=seconds,
        blocks=None,
        variant=[None] * 5,
        workloads=["oltp_read_only"],
        turns=SimpleNamespace(length=0.25),
        count_compared=lambda: len(experiment.variant) - 1,
        split_by_cpus=lambda: [experiment],
    )
    vars(experiment).update(more)
    return SimpleNamespace(experiment=experiment, designs=list(designs), margin=0.03)


def share(setting: Any) -> dict[Design, float]:
    return {d: compute_budget_share(setting, d) or 0.0 for d in setting.designs}


@pytest.mark.usefixtures("costs")
def test_without_a_budget_nothing_is_shared() -> None:
    assert compute_budget_share(make_setting(None), Design.SOLO) is None


@pytest.mark.usefixtures("costs")
def test_one_design_has_all() -> None:
    assert share(make_setting(300.0, (Design.TURNS,))) == {Design.TURNS: 300.0}


@pytest.mark.usefixtures("costs")
@pytest.mark.parametrize("seconds", [100.0, 540.0, 3600.0, 28800.0])
@pytest.mark.parametrize("designs", [ALL, (Design.SOLO, Design.DUET), (Design.SOLO, Design.TURNS)])
def test_the_shares_are_the_budget(seconds: float, designs: tuple[Design, ...]) -> None:
    shares = share(make_setting(seconds, designs))
    assert math.fsum(shares.values()) == pytest.approx(seconds)
    assert all(each > 0 for each in shares.values())


@pytest.mark.usefixtures("costs")
def test_solo_blocks_that_are_asked_for_have_their_time() -> None:
    shares = share(make_setting(540.0, blocks=6))
    assert shares[Design.SOLO] == pytest.approx(6 * 34.0)
    assert math.fsum(shares.values()) == pytest.approx(540.0)


def test_what_takes_longer_has_more_time(costs: dict[str, float]) -> None:
    before = share(make_setting(540.0))
    costs["solo"] *= 2
    assert share(make_setting(540.0))[Design.SOLO] > before[Design.SOLO]


@pytest.mark.usefixtures("costs")
def test_ten_minutes_have_blocks_enough_of_all_three() -> None:
    setting = make_setting(560.0)
    shares = share(setting)
    blocks = {d: choose_blocks(setting, d, seconds)[0] for d, seconds in shares.items()}
    assert all(number >= 3 for number in blocks.values()), blocks


@given(st.floats(0.001, 0.05), st.integers(2, 40), st.floats(0.5, 0.999))
def test_more_blocks_and_less_scatter_clear_a_hurdle_more_often(
    scatter: float, blocks: int, level: float
) -> None:
    hurdle = Hurdle(distance=0.03, level=lambda _: level, borrowed=3, times=1)
    chance = hurdle.find_log_chance(scatter, blocks)
    assert chance <= 0
    assert hurdle.find_log_chance(scatter, blocks + 1) >= chance
    assert hurdle.find_log_chance(scatter / 2, blocks) >= chance


def test_a_hurdle_is_cleared_as_often_as_the_normal_distribution_says() -> None:
    # A bound 2 standard errors below an estimate that is 3 from the limit: one more error is left.
    hurdle = Hurdle(distance=0.03, level=lambda _: 0.97725, borrowed=10_000, times=1)
    assert math.exp(hurdle.find_log_chance(0.02, 4)) == pytest.approx(0.8413, abs=0.001)


def test_what_does_not_fit_is_no_plan() -> None:
    costs = DesignCosts(block=10.0, load=1.0, least_load=1.0, scatter=lambda _: 0.01)
    hurdle = Hurdle(distance=0.03, level=lambda _: 0.99, borrowed=3, times=1)
    assert not list(budget._list_block_plans(costs, 21.9, hurdle))
    assert [plan[0] for plan in budget._list_block_plans(costs, 22.0, hurdle)] == [2]
