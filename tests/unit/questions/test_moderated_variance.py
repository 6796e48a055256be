"""Variances that borrow from each other, and wild ones that do not."""

import math
from itertools import pairwise

import pytest
from example_ratios import make_metric
from hypothesis import given
from hypothesis import strategies as st

from dballoc.questions.compare.baseline_comparison import judge_logs
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import declare_procedure, declare_shares
from dballoc.questions.statistics.ratio_interval import (
    GUARD,
    Variance,
    compute_bounds,
    compute_ratio,
    count_common_freedom,
    moderate_variances,
)

LIKE_ENOUGH = st.lists(st.floats(0.5, 1.0), min_size=2, max_size=10)


ERROR = 0.01  # so much that a comparison borrows as many degrees of freedom as it can


def named(values: list[float], freedom: int = 5) -> dict[int, Variance]:
    return {i: Variance(value, freedom) for i, value in enumerate(values)}


def test_the_formula() -> None:
    found = moderate_variances(named([1.0, 2.0, 2.0, 3.0]), ERROR)
    assert found[0] == Variance((3 * 2.0 + 5 * 1.0) / 8, 8)
    assert found[3] == Variance(3.0, 8)  # not taken for smaller than it is


@pytest.mark.parametrize(("variances", "freedom"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (9, 3)])
def test_the_degrees_of_freedom_of_the_common_variance(variances: int, freedom: int) -> None:
    assert count_common_freedom(variances, ERROR) == freedom


@pytest.mark.parametrize(
    ("error", "freedom"), [(0.025, 3), (0.004, 3), (0.003, 2), (0.001, 1), (0.0001, 0)]
)
def test_the_less_a_comparison_may_err_the_less_it_borrows(error: float, freedom: int) -> None:
    assert count_common_freedom(9, error) == freedom


def test_one_that_is_alone_is_left_as_it_is() -> None:
    assert moderate_variances(named([4.0]), ERROR) == named([4.0])
    assert moderate_variances({}, ERROR) == {}


def test_a_wild_one_keeps_its_own_and_the_others_do_not() -> None:
    found = moderate_variances(named([1.0, 1.0, 1.0, GUARD + 0.01]), ERROR)
    assert found[3] == Variance(GUARD + 0.01, 5)
    assert found[0].freedom == 8
    assert moderate_variances(named([1.0, 1.0, 1.0, GUARD]), ERROR)[3].freedom == 8


def test_without_any_scatter() -> None:
    assert moderate_variances(named([0.0, 0.0]), ERROR) == {
        0: Variance(0.0, 6),
        1: Variance(0.0, 6),
    }
    assert moderate_variances(named([0.0, 1.0]), ERROR)[1] == Variance(1.0, 5)


@given(LIKE_ENOUGH)
def test_each_moves_towards_the_mean_and_keeps_its_rank(values: list[float]) -> None:
    found = moderate_variances(named(values), ERROR)
    mean = sum(values) / len(values)
    for i, value in enumerate(values):
        assert value <= found[i].value <= max(value, mean) + 1e-12
    by_own = sorted(range(len(values)), key=lambda i: values[i])
    assert all(found[a].value <= found[b].value + 1e-12 for a, b in pairwise(by_own))


def test_an_interval_by_a_moderated_variance() -> None:
    found = compute_ratio([0.01, -0.01, 0.02, 0.0], 0.95, Variance(0.0004, 6))
    # Student's t for 6 degrees of freedom at 95 %, as tables have it.
    assert math.log(found.high / found.low) / 2 == pytest.approx(2.446912 * 0.02 / 2, rel=1e-6)
    assert (found.scatter, found.freedom) == (0.02, 6)
    assert found.own_scatter == pytest.approx(math.sqrt(0.0005 / 3))
    assert found.detectable > math.expm1(math.log(found.high / found.estimate))


def test_one_sided_bounds_by_students_t() -> None:
    logs = [0.01, -0.01, 0.02, 0.0]
    bounds = compute_bounds(logs, 0.99, Variance(0.0004, 6))
    assert bounds
    # Student's t for 6 degrees of freedom at one-sided 99 %, as tables have it.
    for end, sign in ((bounds.low, -1), (bounds.high, 1)):
        assert math.log(end) == pytest.approx(0.005 + sign * 3.142668 * 0.02 / 2, rel=1e-6)
    assert compute_bounds([0.01], 0.99) is None


def test_bounds_have_their_own_level_and_borrow_by_their_own_error() -> None:
    """At a share of 0.0625 % an interval of throughput borrows nothing, its bound 2 degrees."""
    procedure = declare_procedure(6, declare_shares(list_judged(["solo", "duet"]), 9, 1))
    error = procedure.shares["tps"]
    assert [count_common_freedom(9, e) for e in (error.of_each, error.of_bound)] == [0, 2]
    logs = {name: [0.01 * x for x in (1, -1, 2, 0, -2, i)] for i, name in enumerate("abcdefgh")}
    logs["glibc"] = [0.01, -0.01, 0.02, 0.0, -0.02, 0.01]
    ratio = judge_logs(logs, make_metric("tps:oltp"), procedure, "glibc")["a"]
    assert (ratio.confidence, ratio.freedom) == (1 - error.of_each * 0.8, 5)
    assert ratio.interval
    assert ratio.bounds
    assert ratio.interval.low < ratio.bounds.low < ratio.estimate < ratio.bounds.high
    assert ratio.bounds.high < ratio.interval.high
    early = judge_logs(logs, make_metric("tps:oltp"), procedure.after(5), "glibc")["a"]
    assert (early.interval, early.bounds) == (None, None)
