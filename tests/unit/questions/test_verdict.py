"""Verdicts, the declared procedure, the rule of recommendation, collapses."""

import pytest
from example_ratios import make_metric, make_ratio
from simulate import declare_even

from dballoc.questions.campaign.answer.recommendation import recommend
from dballoc.questions.campaign.answer.stopping_rule import all_decided, narrow
from dballoc.questions.campaign.figures.level_curves import find_peak_and_collapse
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.verdict import Verdict, judge_ratio
from dballoc.questions.statistics.ratio_interval import Ratio

SPEED = make_metric("tps:w")
PEAK = make_metric("rss_peak")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.001, 1.02, Verdict.HIGHER),
        (0.9, 0.999, Verdict.LOWER),
        (0.991, 1.009, Verdict.EQUIVALENT),
        (0.98, 1.005, Verdict.UNDECIDED),
        (0.995, 1.02, Verdict.UNDECIDED),
        (1.0, 1.02, Verdict.UNDECIDED),
        (1.001, 1.002, Verdict.HIGHER),
    ],
)
def test_judge(low: float, high: float, verdict: Verdict) -> None:
    assert judge_ratio(make_ratio(low, high)) is verdict
    assert judge_ratio(make_ratio(low, high, blocks=1)) is Verdict.UNDECIDED


def test_a_campaign_stops_when_every_comparison_is_decided() -> None:
    higher, equal, open_ = make_ratio(1.01, 1.02), make_ratio(0.995, 1.005), make_ratio(0.98, 1.02)
    assert all_decided([higher, equal])
    assert not all_decided([higher, open_])
    assert not all_decided([higher, None])
    assert not all_decided([])


def test_the_baseline_alone_stops_when_its_interval_is_narrow() -> None:
    assert narrow(make_ratio(1.001, 1.018))
    assert not narrow(make_ratio(0.99, 1.011))
    assert not narrow(None)


@pytest.mark.parametrize(
    ("planned", "looks"),
    [
        (1, (1,)),
        (6, (6,)),
        (8, (8,)),
        (9, (6, 9)),
        (10, (6, 10)),
        (20, (6, 10, 20)),
        (40, (6, 10, 20, 40)),
        (50, (6, 10, 20, 50)),
    ],
)
def test_looks_are_those_planned_and_the_end(planned: int, looks: tuple[int, ...]) -> None:
    assert declare_even(planned, 3).looks == looks


def comparisons(
    faulty: dict[str, tuple[int, int]] | None = None, **variants: tuple[Ratio, Ratio]
) -> Comparisons:
    """``name=(speed, peak)``."""
    family = [
        c
        for name, (speed, peak) in variants.items()
        for c in (Comparison(name, SPEED, speed), Comparison(name, PEAK, peak))
    ]
    return Comparisons(
        procedures={"solo": declare_even(6, 3)},
        metrics=[SPEED, PEAK],
        family=family,
        floor=[],
        faulty=faulty or {},
    )


SAME, LESS, LEAST, MORE = (
    make_ratio(0.98, 1.02),
    make_ratio(0.9, 0.95),
    make_ratio(0.8, 0.85),
    make_ratio(1.05, 1.1),
)


def test_the_least_memory_of_those_no_worse_in_speed() -> None:
    found = recommend(comparisons(a=(SAME, LESS), b=(SAME, LEAST), c=(SAME, MORE)), "base")
    assert (found.variant, found.tie) == ("b", False)


def test_one_shown_slower_by_more_than_the_margin_is_out() -> None:
    found = recommend(comparisons(a=(SAME, LESS), b=(make_ratio(0.9, 0.96), LEAST)), "base")
    assert (found.variant, found.excluded) == (
        "a",
        {"b": "it is shown to be worse in w, transactions per second"},
    )


def test_slower_by_less_than_the_margin_is_not_out() -> None:
    assert recommend(comparisons(a=(make_ratio(0.975, 0.985), LESS)), "base").variant == "a"


@pytest.mark.parametrize("peak", [SAME, make_ratio(0.995, 1.005)])
def test_ties_go_to_the_baseline(peak: Ratio) -> None:
    found = recommend(comparisons(a=(SAME, peak)), "base")
    assert (found.variant, found.tie) == ("base", True)


def test_a_variant_with_faults_is_never_recommended() -> None:
    found = recommend(comparisons(faulty={"a": (1, 6)}, a=(SAME, LESS)), "base")
    assert (found.variant, found.faulty) == ("base", ["a"])


def test_nothing_is_recommended_against_a_faulty_baseline() -> None:
    assert recommend(comparisons(faulty={"base": (1, 12)}, a=(SAME, LESS)), "base").variant is None


@pytest.mark.parametrize(
    ("throughput", "peak", "collapse"),
    [
        ({1: 100, 8: 800, 64: 900}, 64, None),
        ({1: 100, 8: 800, 64: 481}, 8, None),
        ({1: 100, 8: 800, 64: 479}, 8, 64),
        ({256: 1, 8: 800, 64: 400}, 8, 64),
        ({16: 5}, 16, None),
    ],
)
def test_shape(throughput: dict[int, float], peak: int, collapse: int | None) -> None:
    found = find_peak_and_collapse(throughput)
    assert (found.peak_threads, found.collapse_threads) == (peak, collapse)


def test_shape_of_nothing() -> None:
    with pytest.raises(ValueError, match="no level"):
        find_peak_and_collapse({})
