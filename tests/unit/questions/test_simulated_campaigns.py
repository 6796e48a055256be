"""Simulated campaigns: the method keeps its promises on hosts that drift, jump and have moods, and
the same check fails when the schedule is made sequential or the looks are left unadjusted.

Magnitudes are those of shared machines: throughput scatters by 1 to 6 % from start to start, the
host drifts by 10 % over a campaign, walks by 0.5 % a trial, changes for good twice a campaign by
about 5 %.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate import (
    BASELINE,
    Floats,
    Host,
    Judged,
    Scenario,
    Times,
    declare_even,
    drawn,
    experiment,
    intervals,
    judge_all,
    list_logs,
    logs,
    logs_of_floor,
    one_after_another,
    procedure_of,
    really_judged,
    really_used,
    same_order,
    times,
    violations,
)

from dballoc.questions.compare.verdict import DEFAULT_MARGIN
from dballoc.questions.statistics.ratio_interval import compute_ratio

pytestmark = pytest.mark.long

NOISY = Host(luck=0.02, trend=0.10, walk=0.005, steps=2)
# On a host as quiet as this, campaigns are decided at every look, so that the stop rule has
# something to choose.
QUIET = Host(luck=0.006, trend=0.10, walk=0.001, steps=1, step=0.02)

VARIANTS = 4
NOTHING = np.zeros((VARIANTS, 3))
# Throughput, peak and idle RSS of each variant: 1 and 3 %, and two that are as the baseline.
ONE_AND_THREE = np.array(
    [[0.01, 0.03, 0.03], [0.03, -0.01, -0.03], [-0.03, -0.03, 0.0], [0.0, 0.01, 0.01]]
)
THREE = np.full((VARIANTS, 3), 0.03)

CAMPAIGNS = 8000
SEEDS = 1000


@cache
def moments(variants: int, blocks: int, order: object = drawn) -> Times:
    """Those of a thousand seeds; each meets several hosts."""
    return times(experiment(variants), SEEDS, blocks, order)  # type: ignore[arg-type]


def judged(
    scenario: Scenario,
    effects: Floats,
    blocks: int = 40,
    order: object = drawn,
    confidence: float | None = None,
    looks: Sequence[int] = (),
    campaigns: int = CAMPAIGNS,
) -> Judged:
    """Campaigns of that many planned blocks. The same seed gives every kind of campaign the same
    hosts.
    """
    chance = np.random.default_rng(3)
    when = moments(len(effects), blocks, order)
    declared = procedure_of(experiment(len(effects)), blocks)
    parts = [
        judge_all(scenario.values(chance, when), effects, declared, confidence, looks)
        for _ in range(campaigns // SEEDS)
    ]
    joined = {
        name: np.concatenate([getattr(p, name) for p in parts])
        for name in ("estimate", "low", "high", "least", "most", "looked")
    }
    return Judged(**joined, effects=effects)


# -- the arrays say what the project says --------------------------------------------------------------------------------

hosts = st.builds(
    Host,
    luck=st.floats(0.002, 0.06),
    trend=st.floats(-0.2, 0.2),
    walk=st.floats(0, 0.01),
    steps=st.floats(0, 4),
    spells=st.floats(0, 0.5),
)
effect = st.sampled_from([-0.03, -0.01, 0.0, 0.01, 0.03])


@settings(max_examples=60)
@given(
    st.data(),
    st.integers(1, 3),
    st.integers(2, 24),
    st.builds(Scenario, hosts, hosts),
    st.integers(0, 2**32),
)
def test_as_the_project_judges(
    data: st.DataObject, variants: int, blocks: int, scenario: Scenario, seed: int
) -> None:
    effects = np.array(
        data.draw(st.lists(st.tuples(effect, effect, effect), min_size=variants, max_size=variants))
    )
    model = experiment(variants)
    values = scenario.values(np.random.default_rng(seed), times(model, 3, blocks))
    found = judge_all(values, effects, procedure_of(model, blocks))
    for campaign in range(3):
        said = really_judged(values[campaign], effects, model)
        assert len(said) == found.last[campaign] + 1 == found.looked[campaign].sum()
        for look, comparisons in enumerate(said):
            for place, c in enumerate(comparisons.family):
                at = campaign, look, place % variants, place // variants
                assert c.ratio is not None
                ours = found.estimate[at], found.low[at], found.high[at]
                assert ours == pytest.approx(
                    (c.ratio.estimate, c.ratio.low, c.ratio.high), rel=1e-12
                )
                assert (ours[1] > 1, ours[2] < 1) == (c.verdict == "higher", c.verdict == "lower")
        used = {f"v{v + 1}" for v in np.flatnonzero(found.used[campaign])}
        assert used == really_used(said[-1])


@given(
    st.lists(st.tuples(*[st.floats(0.01, 1e6)] * 3), min_size=2, max_size=40),
    st.floats(0.5, 0.9999),
)
def test_as_the_project_takes_ratios(
    values: list[tuple[float, float, float]], confidence: float
) -> None:
    places = {
        (b, role): x
        for b, block in enumerate(values)
        for role, x in zip(("A1", "A2", "V"), block, strict=True)
    }
    arrays = np.log(np.array(values)).T
    for mine, theirs in (
        (logs(arrays)[0], list_logs(places)),
        (logs_of_floor(arrays), list_logs(places, BASELINE)),
    ):
        assert mine == pytest.approx(theirs, rel=1e-12, abs=1e-12)
        found = compute_ratio(theirs, confidence)
        # Logarithms, of what a double holds with all its digits: the ends of an interval of two
        # blocks may lie anywhere.
        with np.errstate(over="ignore", under="ignore"):
            ours = np.clip(intervals(np.array(theirs), confidence), 1e-300, 1e300)
        real = np.clip([found.estimate, found.low, found.high], 1e-300, 1e300)
        assert np.log(ours) == pytest.approx(np.log(real), rel=1e-9, abs=1e-9)


# -- a fixed number of blocks --------------------------------------------------------------------------------------------

# 20 000 campaigns: a standard error of 0.15 percentage points, so that a true coverage of 94.1 to
# 95.9 % passes with four of them. Luck beside a drift that is as large is no normal distribution
# any more; that is what this is about.
FIXED = {
    "luck": Host(),
    "trend": Host(trend=0.10),
    "trend, and little luck": Host(luck=0.005, trend=0.10),
    "walk": Host(walk=0.005),
    "walk, and little luck": Host(luck=0.005, walk=0.005),
    "steps": Host(steps=2),
    "variant of three times the variance": Host(luck=0.02, unlike=(1, 1, 3, 1, 1, 1)),
    "baseline of three times the variance": Host(luck=0.02, unlike=(3, 3, 1, 1, 1, 1)),
    "all of it": Host(luck=0.02, trend=0.10, walk=0.005, steps=2, unlike=(1, 1, 2, 1, 1, 1)),
    "all of it, and much luck": Host(luck=0.06, trend=0.10, walk=0.005, steps=2),
}


def coverage(host: Host, blocks: int, campaigns: int = 20_000) -> tuple[float, float]:
    """How many 95 % intervals hold the truth: of the first variant, and of the A/A floor."""
    chance = np.random.default_rng(blocks)
    when = np.concatenate([moments(VARIANTS, blocks)] * (campaigns // SEEDS))
    values = host.values(chance, when)
    held = []
    for found in (logs(values)[:, 0], logs_of_floor(values)):
        _, low, high = intervals(found, 0.95)
        held.append(float(((low <= 1) & (high >= 1)).mean()))
    return held[0], held[1]


@pytest.mark.parametrize("blocks", [6, 10, 20])
@pytest.mark.parametrize("host", FIXED.values(), ids=FIXED)
def test_coverage_of_a_fixed_number_of_blocks(host: Host, blocks: int) -> None:
    variant, floor = coverage(host, blocks)
    assert 0.935 <= variant <= 0.965
    assert 0.935 <= floor <= 0.965


@pytest.mark.parametrize(
    "host",
    [Host(spells=0.25), Host(luck=0.005, steps=2, step=0.10)],
    ids=["moods", "steps twenty times the luck"],
)
def test_outliers_make_intervals_wider_than_need_be_and_never_too_narrow(host: Host) -> None:
    """A few wild blocks among calm ones: the tails are heavy, and Student's t errs on the safe
    side.
    """
    for blocks in (6, 10, 20):
        assert all(0.945 <= held <= 0.99 for held in coverage(host, blocks))


# -- looks and the stop rule ---------------------------------------------------------------------------------------------

# 8 000 campaigns: a standard error of 0.24 percentage points at 5 %. Bonferroni's bound is what is
# promised, and with comparisons that hardly depend on each other it is nearly reached: 4.3 to 4.7 %
# are found where 5 % are allowed.
KEPT = {
    "no difference": (NOISY, NOTHING),
    "no difference, a quiet host": (QUIET, NOTHING),
    "1 and 3 %": (NOISY, ONE_AND_THREE),
    "1 and 3 %, a quiet host": (QUIET, ONE_AND_THREE),
    "3 %, a quiet host": (QUIET, THREE),
}


@pytest.mark.parametrize(("host", "effects"), KEPT.values(), ids=KEPT)
def test_promises_under_the_stop_rule(host: Host, effects: Floats) -> None:
    assert violations(judged(Scenario(host), effects)) == []


@pytest.mark.parametrize("blocks", [6, 10, 20])
def test_promises_of_shorter_campaigns(blocks: int) -> None:
    # With a single look Bonferroni gives little away: more campaigns where they are short.
    assert (
        violations(judged(Scenario(NOISY), NOTHING, blocks, campaigns=160 // blocks * 1000)) == []
    )


def test_the_stop_rule_is_tried_at_every_look() -> None:
    """Else the tests above would say nothing of it. Differences of 3 and of 5 %."""
    last = np.concatenate(
        [judged(Scenario(QUIET), effects).last for effects in (THREE, THREE * 5 / 3)]
    )
    ends = np.bincount(last, minlength=4) / len(last)
    assert (ends[:3] > 0.005).all()
    assert ends[3] < 0.01


def test_promises_when_the_budget_ends_between_two_looks() -> None:
    """The end is a look of its own, and takes the place of those that never come."""
    assert violations(judged(Scenario(NOISY), NOTHING, looks=(6, 10, 13))) == []


def test_a_variant_that_saves_memory_and_is_slower_by_one_per_cent_is_used_on_a_quiet_host() -> (
    None
):
    effects = np.zeros((VARIANTS, 3))
    effects[:, 0] = math.log(0.99)
    effects[0, 1] = -0.03
    found = judged(Scenario(QUIET), effects)
    assert violations(found) == []
    assert found.used[:, 0].mean() > 0.9


def test_a_variant_at_the_margin_is_hardly_ever_used() -> None:
    effects = np.zeros((VARIANTS, 3))
    effects[:, 0] = math.log(1 - DEFAULT_MARGIN)
    effects[:, 1] = -0.1
    for host in (QUIET, NOISY):
        assert judged(Scenario(host), effects).used.any(axis=1).mean() <= 0.025


def test_real_differences_are_found() -> None:
    """Promises are easily kept by whoever says nothing."""
    found = judged(Scenario(QUIET), THREE, campaigns=2000)
    at = np.arange(2000), found.last
    assert (found.low[at] > 1).all(axis=(1, 2)).mean() > 0.99


# -- and what breaks the promises ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "least"),
    [
        (NOISY, 0.6),
        (Host(luck=0.06, trend=0.10, walk=0.005, steps=2), 0.3),
        (Host(luck=0.03, trend=0.10), 0.3),
    ],
    ids=["noisy host", "much luck", "trend alone"],
)
def test_one_variant_after_another_breaks_them(host: Host, least: float) -> None:
    """Two identical variants, ten blocks."""
    found = judged(Scenario(host), np.zeros((1, 3)), 10, one_after_another)
    assert any("false differences" in v for v in violations(found))
    assert found.false_differences > least
    assert violations(judged(Scenario(host), np.zeros((1, 3)), 10)) == []


def test_blocks_in_the_same_order_break_them() -> None:
    found = judged(Scenario(Host(luck=0.02, trend=0.2)), NOTHING, 10, same_order)
    assert any("false differences" in v for v in violations(found))
    assert violations(judged(Scenario(Host(luck=0.02, trend=0.2)), NOTHING, 10)) == []


def test_unadjusted_looks_break_them() -> None:
    """Of a single comparison: 95 % at each look, and stopping at what pleases."""
    speed = Host(luck=0.03, trend=0.10, walk=0.005, steps=2)
    shares = {}
    for blocks in (10, 20, 40):
        values = np.concatenate(
            [
                speed.values(np.random.default_rng(i), moments(1, blocks))
                for i in range(CAMPAIGNS // SEEDS)
            ]
        )
        one, declared = values[:, None], declare_even(blocks, 1)
        adjusted = judge_all(one, np.zeros((1, 1)), declared)
        unadjusted = judge_all(one, np.zeros((1, 1)), declared, 0.95)
        assert max(adjusted.false_differences, 1 - adjusted.coverage) <= 0.05
        shares[blocks] = unadjusted.false_differences
        assert unadjusted.coverage < 0.93
    assert 0.07 < shares[10] < shares[20] < shares[40] < 0.17


def test_an_unadjusted_family_breaks_them() -> None:
    """Twelve comparisons at 95 % each, looked at four times."""
    found = judged(Scenario(NOISY), NOTHING, confidence=0.95)
    assert any("false differences" in v for v in violations(found))
    assert found.false_differences > 0.6
