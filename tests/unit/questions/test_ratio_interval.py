"""Ratios and their intervals: laws, and a textbook value. Coverage: test_simulated_campaigns.py."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from simulate import BASELINE, list_logs

from dballoc.questions.statistics.ratio_interval import compute_ratio

logs = st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=40)


@given(logs, st.floats(0.5, 0.999))
def test_is_students_t_on_the_logarithms(values: list[float], confidence: float) -> None:
    found = compute_ratio(values, confidence)
    spread = stats.sem(values)
    half = spread * stats.t.ppf((1 + confidence) / 2, len(values) - 1)
    mean = math.fsum(values) / len(values)
    assert math.isclose(found.low, math.exp(mean - half), rel_tol=1e-9)
    assert math.isclose(found.high, math.exp(mean + half), rel_tol=1e-9)


@given(logs)
def test_the_other_way_round_is_the_inverse(values: list[float]) -> None:
    there, back = compute_ratio(values, 0.95), compute_ratio([-v for v in values], 0.95)
    assert math.isclose(there.estimate, 1 / back.estimate, rel_tol=1e-9)
    assert math.isclose(there.low, 1 / back.high, rel_tol=1e-9)


def test_one_block_shows_a_figure_and_no_interval() -> None:
    found = compute_ratio([math.log(1.1)], 0.95)
    assert (round(found.estimate, 9), found.interval) == (1.1, None)
    assert found.detectable == math.inf


def test_two_wild_blocks_at_the_level_of_a_large_family() -> None:
    found = compute_ratio([1.0, -1.0], 1 - 0.05 / 200)
    assert found.interval
    assert found.invert().interval
    assert all(map(math.isfinite, (*found.interval, *found.invert().interval)))
    assert found.detectable == math.inf


def test_no_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="no block"):
        compute_ratio([], 0.95)


@given(st.floats(0.5, 2), st.floats(0.1, 10), st.floats(0.1, 10))
def test_what_a_whole_block_shares_cancels(effect: float, drift: float, more: float) -> None:
    values = {
        (1, "A1"): drift,
        (1, "A2"): drift,
        (1, "V"): drift * effect,
        (2, "A1"): more,
        (2, "A2"): more,
        (2, "V"): more * effect,
    }
    assert all(math.isclose(math.exp(d), effect, rel_tol=1e-9) for d in list_logs(values))


def test_a_block_that_lacks_one_is_left_out() -> None:
    values = {
        (1, "A1"): 1.0,
        (1, "A2"): 1.0,
        (1, "V"): 2.0,
        (2, "A1"): 1.0,
        (2, "V"): 2.0,
        (3, "A1"): 2.0,
        (3, "A2"): 4.0,
    }
    assert list_logs(values) == [math.log(2)]
    assert list_logs(values, BASELINE) == [0.0, math.log(2)]


def test_detectable_shrinks_with_blocks() -> None:
    few, many = compute_ratio([0.01, -0.01] * 3, 0.95), compute_ratio([0.01, -0.01] * 20, 0.95)
    assert 0 < many.detectable < few.detectable
