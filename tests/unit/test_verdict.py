"""Verdicts, the declared procedure, the rule of recommendation, collapses."""

import math

import pytest
from example_ratios import make_ratio
from hypothesis import given
from hypothesis import strategies as st

from dballoc.analysis.decisions.recommendation import recommend
from dballoc.analysis.decisions.sequential_test import count_comparisons, declare_procedure
from dballoc.analysis.decisions.stopping_rule import all_decided, narrow
from dballoc.analysis.decisions.throughput_collapse import find_peak_and_collapse
from dballoc.analysis.decisions.verdict import Verdict, judge_ratio
from dballoc.analysis.statistics.ratio_interval import Ratio
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, Metric

SPEED = Metric(key="tps:w", title="w", unit="1/s", better="higher", workload="w")
PEAK = Metric(key="rss_peak", title="peak RSS", unit="bytes", better="lower")


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
    assert declare_procedure(planned, 3).looks == looks


def test_the_error_is_shared_by_looks_and_family() -> None:
    assert count_comparisons(["solo"], variants=5, workloads=2) == 4 * (2 + 2)
    assert count_comparisons(["duet"], variants=5, workloads=2) == 4 * 2
    procedure = declare_procedure(10, count_comparisons(["solo"], 5, 2))
    assert math.isclose(procedure.after(6).confidence, 1 - 0.05 * 0.36 / 16)
    assert math.isclose(procedure.confidence, 1 - 0.05 * 0.64 / 16)


def test_between_two_looks_the_level_is_that_of_the_next() -> None:
    procedure = declare_procedure(20, 4)
    assert [procedure.after(n).confidence for n in (0, 3)] == [procedure.after(6).confidence] * 2
    assert procedure.after(7).confidence == procedure.after(10).confidence
    assert procedure.after(19).confidence == procedure.confidence


@given(st.integers(2, 60), st.integers(1, 40))
def test_no_campaign_ends_at_a_lower_level_than_one_of_a_single_look(
    planned: int, family: int
) -> None:
    """What :func:`dballoc.analysis.statistics.detectable_difference.count_blocks_needed` begins its
    search with.
    """
    assert declare_procedure(planned, family).confidence >= declare_procedure(2, family).confidence


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 10), st.integers(1, 40))
def test_all_errors_together_stay_within_five_per_cent(
    solo: int, duet: int, variants: int, workloads: int
) -> None:
    error = 0.0
    both = count_comparisons(["solo", "duet"], variants, workloads)
    for design, planned in (("solo", solo), ("duet", duet)):
        procedure = declare_procedure(planned, both)
        looks = [procedure.after(look).confidence for look in procedure.looks]
        error += sum(1 - level for level in looks) * count_comparisons(
            [design], variants, workloads
        )
    assert error == pytest.approx(0.05)


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
        procedures={"solo": declare_procedure(6, 3)},
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
    assert (found.variant, found.excluded) == ("a", {"b": "shown to be worse: w"})


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
