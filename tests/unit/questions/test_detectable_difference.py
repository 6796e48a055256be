"""What a number of blocks resolves: laws, textbook values, and the power that is promised."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from simulate import declare_even

from dballoc.questions.statistics import detectable_difference
from dballoc.questions.statistics.detectable_difference import (
    Scatter,
    compute_detectable,
    compute_half_width,
    compute_need,
    count_blocks_needed,
    pool_scatter,
)
from dballoc.questions.statistics.ratio_interval import compute_ratio

scatters = st.floats(1e-5, 0.3)
blocks = st.integers(2, 200)
levels = st.floats(0.5, 0.9999)


def at(confidence: float):
    return lambda _: confidence


def declared(family: int):
    """As a campaign has it: more planned blocks have more looks."""
    return lambda n: declare_even(n, family).confidence


@given(st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=40), levels)
def test_the_half_width_is_that_of_the_printed_interval(
    logs: list[float], confidence: float
) -> None:
    found = compute_ratio(logs, confidence)
    assert found.high / found.estimate - 1 == pytest.approx(
        compute_half_width(found.scatter, len(logs), confidence), abs=1e-9, rel=1e-9
    )


@given(scatters, blocks, levels)
def test_more_blocks_less_scatter_and_lower_levels_resolve_more(
    scatter: float, n: int, confidence: float
) -> None:
    for reach in (compute_half_width, compute_detectable):
        here = reach(scatter, n, confidence)
        if math.isinf(here):  # two blocks at such a level
            assert n == 2
            continue
        assert 0 < reach(scatter, n + 1, confidence) < here
        assert reach(scatter / 2, n, confidence) < here
        assert reach(scatter, n, confidence * 0.99) < here


@given(scatters, st.integers(3, 200), st.floats(0.9, 0.9999))
def test_a_difference_as_large_as_the_half_width_is_not_yet_detectable(
    scatter: float, n: int, confidence: float
) -> None:
    assert compute_detectable(scatter, n, confidence) > compute_half_width(scatter, n, confidence)


@pytest.mark.parametrize("n", [0, 1])
def test_one_block_resolves_nothing(n: int) -> None:
    assert compute_half_width(0.01, n, 0.95) == compute_detectable(0.01, n, 0.95) == math.inf


@given(scatters, st.sampled_from([0.01, 0.02, 0.05]), st.integers(1, 40))
def test_the_blocks_needed_are_enough_and_one_less_is_not(
    scatter: float, difference: float, family: int
) -> None:
    level = declared(family)
    n = count_blocks_needed(scatter, difference, level)
    if n is None:
        assert (
            compute_half_width(
                scatter, detectable_difference.MOST_BLOCKS, level(detectable_difference.MOST_BLOCKS)
            )
            > difference
        )
        return
    assert compute_half_width(scatter, n, level(n)) <= difference
    assert n == 2 or compute_half_width(scatter, n - 1, level(n - 1)) > difference


@given(scatters, scatters, st.floats(0.002, 0.2), st.floats(0.002, 0.2), levels)
def test_less_scatter_and_larger_differences_need_no_more_blocks(
    s: float, t: float, d: float, e: float, confidence: float
) -> None:
    beyond = detectable_difference.MOST_BLOCKS + 1
    few = count_blocks_needed(min(s, t), max(d, e), at(confidence)) or beyond
    many = count_blocks_needed(max(s, t), min(d, e), at(confidence)) or beyond
    assert few <= many


@given(st.integers(2, 60), scatters, levels)
def test_what_n_blocks_resolve_takes_n_blocks(n: int, scatter: float, confidence: float) -> None:
    # A hair more, for the way there and back.
    assert (
        count_blocks_needed(
            scatter, compute_half_width(scatter, n, confidence) * (1 + 1e-9), at(confidence)
        )
        == n
    )


def test_no_scatter_needs_two_blocks_and_too_much_is_out_of_reach() -> None:
    assert count_blocks_needed(0.0, 0.01, at(0.95)) == 2
    assert count_blocks_needed(5.0, 0.01, at(0.95)) is None


def test_textbook_values() -> None:
    # Two-sided 5 %, s = 1 %, difference 1 %: half-width t(0.975; 6)·0.01/√7 = 0.925 %, and 1.049 %
    # with six blocks.
    assert compute_half_width(0.01, 7, 0.95) == pytest.approx(
        math.expm1(2.44691 * 0.01 / math.sqrt(7)), rel=1e-5
    )
    assert count_blocks_needed(0.01, 0.01, at(0.95)) == 7
    # One sample, two-sided 5 %, power 80 %: a difference of one standard deviation takes ten
    # blocks.
    assert compute_detectable(0.01, 10, 0.95) < math.expm1(0.01) < compute_detectable(0.01, 9, 0.95)
    # The 90 % interval of a standard deviation with ten degrees of freedom.
    assert Scatter(1.0, 10).range == pytest.approx(
        (math.sqrt(10 / 18.307), math.sqrt(10 / 3.940)), rel=1e-4
    )


@pytest.mark.parametrize("n", [3, 6, 10, 20])
@pytest.mark.parametrize("confidence", [0.95, 1 - 0.05 / 48])
def test_four_of_five_campaigns_show_what_is_detectable(n: int, confidence: float) -> None:
    """20 000 campaigns: a standard error of 0.28 percentage points."""
    scatter = 0.02
    logs = np.random.default_rng(n).normal(
        math.log1p(compute_detectable(scatter, n, confidence)), scatter, (20_000, n)
    )
    low = logs.mean(axis=1) - stats.t.ppf((1 + confidence) / 2, n - 1) * logs.std(
        axis=1, ddof=1
    ) / math.sqrt(n)
    assert abs((low > 0).mean() - 0.8) < 4 * math.sqrt(0.8 * 0.2 / 20_000)


def test_the_range_holds_the_true_scatter_as_often_as_it_says() -> None:
    logs = np.random.default_rng(1).normal(0, 0.02, (2_000, 8))
    held = [
        low <= 0.02 <= high for low, high in (Scatter(s, 7).range for s in logs.std(axis=1, ddof=1))
    ]
    assert abs(np.mean(held) - detectable_difference.LEVEL) < 4 * math.sqrt(0.09 / 2_000)


@given(st.lists(st.tuples(scatters, st.integers(0, 30)), max_size=5))
def test_pooled_scatter_lies_between_its_parts(parts: list[tuple[float, int]]) -> None:
    found = pool_scatter(parts)
    known = [sd for sd, freedom in parts if freedom]
    if not known:
        assert found is None
        return
    assert found is not None
    assert min(known) * (1 - 1e-9) <= found.sd <= max(known) * (1 + 1e-9)
    assert found.freedom == sum(freedom for _, freedom in parts)


@given(scatters, st.integers(1, 60))
def test_a_need_has_its_range_around_it(scatter: float, freedom: int) -> None:
    found = compute_need(Scatter(scatter, freedom), 0.02, declared(3))
    beyond = detectable_difference.MOST_BLOCKS + 1
    low, blocks_, high = (n or beyond for n in (found.low, found.blocks, found.high))
    assert low <= blocks_ <= high


@given(st.integers(2, 60), st.integers(1, 500))
def test_levels_of_large_families_are_no_trouble(n: int, family: int) -> None:
    found = compute_detectable(0.01, n, declared(family)(n))
    assert found > 0
    assert not math.isnan(found)
