"""Quantiles in plain Python are scipy's."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.distributions import (
    compute_binomial_tail,
    compute_chi_square_quantile,
    compute_t_quantile,
    find_chi_square_quantile,
    find_t_quantile,
)


@given(st.integers(1, 200) | st.integers(900, 100_000), st.floats(0.5, 0.9999))
def test_students_t_is_scipys(freedom: int, probability: float) -> None:
    expected = compute_t_quantile(freedom, probability)
    assert find_t_quantile(freedom, probability) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 2, 5, 40, 999, 1500, 1501, 20_000])
def test_chi_square_is_scipys(freedom: int) -> None:
    for above in (0.05, 0.5, 0.9):
        expected = compute_chi_square_quantile(freedom, above)
        assert find_chi_square_quantile(freedom, above) == pytest.approx(expected, rel=1e-12)


def test_students_t_by_the_tables() -> None:
    """The familiar 95 % values."""
    values = [find_t_quantile(freedom, 0.975) for freedom in (1, 2, 5, 10, 30)]
    assert values == pytest.approx([12.706, 4.303, 2.571, 2.228, 2.042], abs=5e-4)


@given(st.integers(0, 40), st.floats(0.01, 0.99))
def test_the_binomial_tail_is_a_sum(trials: int, probability: float) -> None:
    masses = [
        math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k)
        for k in range(trials + 1)
    ]
    for successes in range(trials + 1):
        tail = compute_binomial_tail(successes, trials, probability)
        assert tail == pytest.approx(sum(masses[successes:]), abs=1e-12)
