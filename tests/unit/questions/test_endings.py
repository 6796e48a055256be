"""Every campaign has exactly one ending, and "Use X" is never said of what is not shown."""

import math
from dataclasses import replace

import pytest
from example_ratios import make_ratio
from hypothesis import given
from hypothesis import strategies as st
from simulate import declare_even
from test_report_answer import CPU, PEAK, READS, TPS

from dballoc.questions.campaign.answer.conditions_and_preference import Preference
from dballoc.questions.campaign.answer.recommendation import (
    Aim,
    Ending,
    RecommendationBasis,
    VariantStanding,
    choose_ending,
    judge_comparison,
    recommend,
    select_judged,
)
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.verdict import Noninferiority, compute_thresholds, judge_standing
from dballoc.questions.statistics.ratio_interval import Interval, Ratio


@pytest.mark.parametrize(
    ("better", "low", "high", "standing"),
    [
        ("lower", 0.95, 0.989, Noninferiority.BETTER),
        ("lower", 0.95, 0.991, Noninferiority.NO_WORSE),
        ("lower", 1.015, 1.029, Noninferiority.NO_WORSE),
        ("lower", 1.011, 1.031, Noninferiority.WORSE),
        ("lower", 1.009, 1.031, Noninferiority.UNDECIDED),
        ("lower", 0.0, math.inf, Noninferiority.UNDECIDED),
        ("higher", 1.011, 1.05, Noninferiority.BETTER),
        ("higher", 0.9705, 1.2, Noninferiority.NO_WORSE),
        ("higher", 0.9695, 1.2, Noninferiority.UNDECIDED),
        ("higher", 0.95, 0.989, Noninferiority.WORSE),
        ("higher", 0.0, math.inf, Noninferiority.UNDECIDED),
    ],
)
def test_standing(better: str, low: float, high: float, standing: Noninferiority) -> None:
    assert (
        judge_standing(make_ratio(low or 1.0, high, blocks=6 if low else 1), better, 0.03)
        is standing
    )


@pytest.mark.parametrize(
    ("better", "interval", "bounds", "standing"),
    [
        # Shown to be no worse by the bound, where the interval reaches beyond the margin.
        ("lower", (0.99, 1.034), (0.995, 1.029), Noninferiority.NO_WORSE),
        ("higher", (0.966, 1.01), (0.971, 1.005), Noninferiority.NO_WORSE),
        ("lower", (1.011, 1.034), (1.013, 1.0299), Noninferiority.NO_WORSE),
        # Better and worse stay the interval's.
        ("lower", (0.96, 0.992), (0.965, 0.989), Noninferiority.NO_WORSE),
        ("lower", (1.008, 1.06), (1.012, 1.055), Noninferiority.UNDECIDED),
        ("higher", (0.95, 0.992), (0.955, 0.989), Noninferiority.UNDECIDED),
    ],
)
def test_no_worse_is_read_off_the_bound_and_the_rest_off_the_interval(
    better: str,
    interval: tuple[float, float],
    bounds: tuple[float, float],
    standing: Noninferiority,
) -> None:
    ratio = replace(make_ratio(*interval), bounds=Interval(*bounds))
    assert judge_standing(ratio, better, 0.03) is standing


def test_a_margin_below_one_per_cent_leaves_no_gap() -> None:
    limits = compute_thresholds("lower", 0.005)
    assert limits.tolerance == limits.loss == 1.005
    assert judge_standing(make_ratio(1.006, 1.009), "lower", 0.005) is Noninferiority.WORSE


@given(st.floats(0.5, 2), st.floats(0.5, 2), st.floats(0.001, 0.5), st.booleans())
def test_better_is_no_worse_and_never_worse(
    a: float, b: float, margin: float, upward: bool
) -> None:
    ratio = make_ratio(min(a, b), max(a, b))
    assert ratio.interval
    better = "higher" if upward else "lower"
    limits = compute_thresholds(better, margin)
    standing = judge_standing(ratio, better, margin)
    sign = -1 if upward else 1
    adverse = ratio.interval.low if upward else ratio.interval.high
    if standing in (Noninferiority.BETTER, Noninferiority.NO_WORSE):
        assert sign * adverse < sign * limits.tolerance
    if standing is Noninferiority.WORSE:
        favourable = ratio.interval.high if upward else ratio.interval.low
        assert sign * favourable > sign * 1


STANDINGS = st.sampled_from(list(Noninferiority))
AIMS = st.builds(
    Aim,
    standing=STANDINGS,
    gain=st.floats(-0.5, 0.5),
    first=st.booleans(),
    promising=st.booleans(),
)


@st.composite
def variants(draw: st.DrawFn) -> list[VariantStanding]:
    names = draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=4))
    chosen = []
    for name in names:
        aims = draw(st.lists(AIMS, max_size=3))
        others = draw(st.lists(STANDINGS, max_size=2))
        chosen.append(
            VariantStanding(
                name=name,
                aims=aims,
                required=[*(a.standing for a in aims), *others],
                faulty=draw(st.booleans()),
                collapsed=draw(st.booleans()),
            )
        )
    return chosen


@given(variants(), st.booleans())
def test_the_endings_are_exhaustive_and_exclude_each_other(
    standings: list[VariantStanding], failed: bool
) -> None:
    ending, subject = choose_ending(standings, failed)
    assert (ending is Ending.BASELINE_FAILED) == failed
    assert (subject is None) == (ending in (Ending.STAY, Ending.BASELINE_FAILED))
    if subject is None:
        if not failed:
            assert all(v.ending is Ending.STAY for v in standings)
        return
    named = next(v for v in standings if v.name == subject)
    assert named.ending is ending
    better = any(a.standing is Noninferiority.BETTER for a in named.aims)
    fine = all(s in (Noninferiority.BETTER, Noninferiority.NO_WORSE) for s in named.required)
    worse = named.collapsed or Noninferiority.WORSE in named.required
    assert not named.faulty
    # Each ending by its own words, not by the order in which they are tried.
    assert (ending is Ending.USE) == (better and fine and not named.collapsed)
    assert (ending is Ending.CHOICE) == (better and worse)
    assert (ending is Ending.NOT_SETTLED) == (not worse and not (better and fine))
    assert (choose_ending(standings[::-1], failed)) == (ending, subject)


def test_of_several_the_first_question_then_the_gain_then_the_name() -> None:
    def make(name: str, gain: float, first: bool) -> VariantStanding:
        aim = Aim(standing=Noninferiority.BETTER, gain=gain, first=first, promising=True)
        return VariantStanding(name=name, aims=[aim], required=[aim.standing])

    assert choose_ending([make("a", 0.3, False), make("b", 0.1, True)], False)[1] == "b"
    assert choose_ending([make("a", 0.1, True), make("b", 0.2, True)], False)[1] == "b"
    assert choose_ending([make("b", 0.2, True), make("a", 0.2, True)], False)[1] == "a"


def test_of_what_is_not_settled_one_that_seems_to_lose_comes_last() -> None:
    def make(name: str, gain: float, loses: bool) -> VariantStanding:
        aim = Aim(standing=Noninferiority.BETTER, gain=gain, first=True, promising=True)
        required = [Noninferiority.BETTER, Noninferiority.UNDECIDED]
        return VariantStanding(name=name, aims=[aim], required=required, loses=loses)

    variants = [make("a", 0.3, True), make("b", 0.1, False)]
    assert choose_ending(variants, False) == (Ending.NOT_SETTLED, "b")
    assert choose_ending(variants[:1], False) == (Ending.NOT_SETTLED, "a")


METRICS = (PEAK, CPU, TPS, READS)
RATIOS = st.one_of(
    st.none(),
    st.tuples(st.floats(0.8, 1.2), st.floats(0.8, 1.2)).map(lambda x: make_ratio(min(x), max(x))),
)


@given(
    st.lists(st.tuples(*[RATIOS] * len(METRICS)), min_size=1, max_size=3),
    st.sets(st.sampled_from(["v0", "v1", "v2"])),
    st.sets(st.sampled_from(["v0", "v1", "v2"])),
    st.sets(st.sampled_from(["v0", "v1", "v2"])),
    st.sampled_from(["memory", "speed"]),
    st.floats(0.005, 0.1),
)
def test_use_is_never_said_of_what_is_faulty_collapsed_or_not_shown_to_be_no_worse(
    ratios: list[tuple[Ratio | None, ...]],
    faulty: set[str],
    collapsed: set[str],
    left_out: set[str],
    objective: str,
    margin: float,
) -> None:
    comparisons = Comparisons(
        procedures=dict.fromkeys(("solo", "duet"), declare_even(6, 12)),
        metrics=list(METRICS),
        family=[
            Comparison(f"v{i}", metric, ratio)
            for i, row in enumerate(ratios)
            for metric, ratio in zip(METRICS, row, strict=True)
        ],
        floor=[],
        faulty=dict.fromkeys(faulty, (1, 6)),
    )
    evidence = RecommendationBasis(
        margin=margin,
        collapsed=dict.fromkeys(collapsed, "w"),
        left_out=frozenset(left_out),
    )
    preference = Preference("memory" if objective == "memory" else "speed")
    found = recommend(comparisons, "glibc", preference, evidence)
    if found.ending is not Ending.USE:
        assert found.variant == ("glibc" if found.tie else None)
        return
    name = found.subject
    assert name is not None
    assert name == found.variant
    assert name not in faulty | collapsed
    judged = select_judged(comparisons, name, evidence.left_out)
    assert {c.metric for c in judged} >= {PEAK, TPS, READS}
    assert all(
        judge_comparison(c, margin) in (Noninferiority.BETTER, Noninferiority.NO_WORSE)
        for c in judged
    )
    assert any(judge_comparison(c, margin) is Noninferiority.BETTER for c in judged)
