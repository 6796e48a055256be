"""Welch's interval of two campaigns."""

import math
import random

import pytest
from scipy import stats

from dballoc.questions.statistics.ratio_interval import compute_unpaired_ratio


def draw(rng: random.Random, n: int, mean: float, sd: float) -> list[float]:
    return [rng.gauss(mean, sd) for _ in range(n)]


@pytest.mark.parametrize(("n", "m", "sd"), [(6, 6, 0.01), (2, 10, 0.05), (20, 6, 0.001)])
def test_it_is_scipys(n: int, m: int, sd: float) -> None:
    rng = random.Random(n)
    first, second = draw(rng, n, 0.0, 0.01), draw(rng, m, 0.02, sd)
    found = compute_unpaired_ratio(first, second, 0.97)
    theirs = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.97)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((theirs.low, theirs.high))
    assert found.low < found.estimate < found.high
    assert found.blocks_of_each == (n, m)


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(1)
    hits = 0
    for _ in range(2000):
        found = compute_unpaired_ratio(draw(rng, 6, 0.0, 0.01), draw(rng, 10, 0.03, 0.04), 0.95)
        hits += found.low <= math.exp(0.03) <= found.high
    assert 0.935 <= hits / 2000 <= 0.965


def test_one_block_has_no_interval() -> None:
    found = compute_unpaired_ratio([0.0], [0.1, 0.2], 0.95)
    assert (found.interval, found.detectable) == (None, math.inf)
    assert found.estimate == pytest.approx(math.exp(0.15))


def test_no_scatter_at_all() -> None:
    found = compute_unpaired_ratio([0.0] * 3, [math.log(2)] * 3, 0.95)
    assert (found.low, found.estimate, found.high) == pytest.approx((2, 2, 2))


def test_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a block"):
        compute_unpaired_ratio([], [0.0], 0.95)


def campaign(
    rng: random.Random, host: float, effect: float, n: int = 6
) -> tuple[list[float], list[float]]:
    """Per block (variant ÷ baseline, variant itself), on a host that is slower by ``host`` and
    wanders from block to block.
    """
    relative, absolute = [], []
    for _ in range(n):
        weather = host + rng.gauss(0, 0.02)
        first, second, mine = (weather + rng.gauss(0, 0.005) for _ in range(3))
        relative.append(mine + effect - (first + second) / 2)
        absolute.append(mine + effect)
    return relative, absolute


def test_what_moves_the_host_between_campaigns_cancels_in_relative_figures_alone() -> None:
    """The host differs by some 3 % from campaign to campaign, the variant not at all: how often a
    difference is 'shown'.
    """
    rng = random.Random(7)
    shown = [0, 0]
    for _ in range(1000):
        before, after = (
            campaign(rng, rng.gauss(0, 0.03), 0.1),
            campaign(rng, rng.gauss(0, 0.03), 0.1),
        )
        for kind in (0, 1):
            found = compute_unpaired_ratio(before[kind], after[kind], 0.95)
            shown[kind] += not found.low <= 1 <= found.high
    assert shown[0] / 1000 <= 0.065
    assert shown[1] / 1000 > 0.3


def test_two_wild_blocks_on_each_side_at_the_level_of_a_large_family() -> None:
    found = compute_unpaired_ratio([2.0, -2.0], [1.0, -1.0], 1 - 0.05 / 2000)
    assert found.low == pytest.approx(0)
    assert found.high is not None
    assert math.isfinite(found.high)
