"""The benchmark's arrays say what the project's functions say, and its campaigns keep their promise."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_ratios import make_metric, make_ratio
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from simulated_campaigns import BETTER, Shape, compute_intervals, find_decided, simulate

from dballoc.experiment.designs import Design
from dballoc.questions.campaign.answer.stopping_rule import is_settled
from dballoc.questions.compare.baseline_comparison import Comparison
from dballoc.questions.compare.procedure import CPU, ERROR, MEMORY
from dballoc.questions.compare.verdict import DEFAULT_MARGIN, Verdict, judge_ratio
from dballoc.questions.statistics.ratio_interval import (
    Interval,
    Variance,
    compute_ratio,
    compute_variance,
    exp_clamped,
    moderate_variances,
)


@given(
    st.integers(2, 10),
    st.integers(2, 20),
    st.sampled_from(["solo", "duet"]),
    st.floats(0.9, 0.9999),
    st.sampled_from([0.01, 0.003, 0.001, 0.0001]),
    st.floats(1, 20),
    st.integers(0, 2**32),
)
def test_as_the_project_judges(
    variants: int,
    blocks: int,
    design: str,
    confidence: float,
    error: float,
    scale: float,
    seed: int,
) -> None:
    logs = np.random.default_rng(seed).normal(0, 0.02, (1, variants, blocks))
    logs[:, 0] *= scale
    middle, half = compute_intervals(logs, confidence, design, error)
    scales = dict.fromkeys(range(variants), 1.0)
    scales[variants - 1] = Design(design).traits.floor_to_variant
    own = {i: compute_variance(list(row)) for i, row in enumerate(logs[0])}
    moderated = moderate_variances(
        {i: Variance(v.value * scales[i], v.freedom) for i, v in own.items()}, error
    )
    for i, row in enumerate(logs[0]):
        variance = Variance(moderated[i].value / scales[i], moderated[i].freedom)
        ratio = compute_ratio(list(row), confidence, variance)
        assert math.log(ratio.estimate) == pytest.approx(middle[0, i], abs=1e-12)
        # Of two wild blocks an interval may reach beyond what a number holds.
        assert ratio.low == pytest.approx(exp_clamped(middle[0, i] - half[0, i]), rel=1e-9)
        assert ratio.high == pytest.approx(exp_clamped(middle[0, i] + half[0, i]), rel=1e-9)


@given(
    st.sampled_from(list(BETTER)),
    st.floats(-0.06, 0.06),
    st.floats(0.0001, 0.05),
    st.floats(0.5, 1),
)
def test_a_design_ends_as_the_project_says(
    measure: str, middle: float, half: float, share: float
) -> None:
    interval = make_ratio(
        math.exp(middle - half), math.exp(middle + half), estimate=math.exp(middle)
    )
    reach = share * half
    bounds = Interval(math.exp(middle - reach), math.exp(middle + reach))
    ratio = replace(interval, bounds=bounds)
    metric = make_metric(measure)
    comparison = Comparison("v", metric, ratio)
    expected = judge_ratio(ratio) is not Verdict.UNDECIDED and is_settled(
        comparison, DEFAULT_MARGIN
    )
    found = find_decided(np.array(middle), np.array(half), np.array(reach), BETTER[measure])
    assert found == expected


@pytest.mark.parametrize(("wild", "once"), [(0, False), (1, False), (4, False), (4, True)])
def test_campaigns_err_no_more_often_than_they_say(wild: int, once: bool) -> None:
    """A short run of what docs/evidence.md has the whole table of."""
    shape = Shape(variants=5, wild=wild, scale=3.0, host="luck", planned=6, once=once)
    found = simulate(shape, 4000, seed=1)
    assert found["campaign_error"] <= ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / 4000)
    # With 25 errors of one comparison expected, a limit of 2 is 3 instead.
    ratios = {key: ratio for key, ratio in found.items() if key.startswith((MEMORY, CPU))}
    assert ratios
    assert max(ratios.values()) <= 3
