"""The procedure: two questions, looks that allow going on, and what stands between two looks."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from example_procedures import SHARES, declared, mark_current
from example_results import Make
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.looks import Extension
from dballoc.campaign.plan_extension import list_extensions, plan_extension
from dballoc.campaign.run_blocks import list_budget_looks
from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer import stopping_rule
from dballoc.questions.compare.baseline_comparison import (
    Comparisons,
    compare_with_baseline,
    declare_procedures,
    list_metrics,
)
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import (
    CPU,
    ERROR,
    MEMORY,
    NO_WORSE_ERROR,
    THROUGHPUT,
    Procedure,
    declare_procedure,
    declare_shares,
)
from dballoc.questions.compare.verdict import Verdict
from dballoc.questions.diff.figures import compare_campaigns, find_look_share
from dballoc.questions.statistics.detectable_difference import convert_to_fall
from dballoc.questions.statistics.ratio_interval import (
    Interval,
    Variance,
    compute_variance,
    moderate_variances,
)

# -- the two questions ---------------------------------------------------------------------------


def test_each_question_has_half_of_the_error() -> None:
    assert {m: (s.error, s.comparisons) for m, s in SHARES.items()} == {
        MEMORY: (0.025, 4),
        THROUGHPUT: (0.005, 8),
        CPU: (0.02, 8),
    }
    solo = declare_shares(list_judged(["solo"]), variants=3, workloads=1)
    assert {m: (s.error, s.comparisons) for m, s in solo.items()} == {
        MEMORY: (0.025, 2),
        THROUGHPUT: (0.025, 2),
    }
    duet = declare_shares(list_judged(["duet"]), variants=3, workloads=1)
    assert {m: s.error for m, s in duet.items()} == {CPU: 0.025}


def test_variants_left_out_of_the_duet_spend_none_of_its_error() -> None:
    assert declare_shares(list_judged(["solo", "duet"]), 5, 1, left_out=1)[CPU].comparisons == 3
    nobody = declare_shares(list_judged(["solo", "duet"]), 5, 1, left_out=4)
    assert CPU not in nobody
    assert nobody[THROUGHPUT].error == 0.025


@given(
    st.integers(1, 200),
    st.integers(1, 200),
    st.integers(1, 10),
    st.integers(1, 40),
    st.sets(st.integers(2, 250), max_size=6),
    st.booleans(),
)
def test_all_looks_and_comparisons_together_err_in_five_per_cent(
    solo: int, duet: int, variants: int, workloads: int, budget_looks: set[int], once: bool
) -> None:
    shares = declare_shares(list_judged(["solo", "duet"]), variants, workloads)
    error = 0.0
    for planned, measures in ((solo, (MEMORY, THROUGHPUT)), (duet, (CPU,))):
        procedure = declare_procedure(planned, shares, budget_looks, judged_once=once)
        assert list(procedure.spending) == sorted(procedure.spending)
        for measure in measures:
            levels = [procedure.after(look).levels[measure] for look in procedure.spending]
            error += sum(1 - level for level in levels) * shares[measure].comparisons
    assert (0.79 if once else 0.9) * ERROR < error <= ERROR * (1 + 1e-9)


@given(
    st.integers(1, 200),
    st.integers(1, 10),
    st.integers(1, 40),
    st.sets(st.integers(2, 250), max_size=6),
    st.booleans(),
)
def test_the_bounds_of_all_variants_and_looks_err_in_two_and_a_half_per_cent(
    planned: int, variants: int, workloads: int, budget_looks: set[int], once: bool
) -> None:
    """Of each measure alone: a claim that needs all its parts fails with any of them."""
    shares = declare_shares(list_judged(["solo", "duet"]), variants, workloads)
    procedure = declare_procedure(planned, shares, budget_looks, judged_once=once)
    for measure in shares:
        levels = [procedure.after(look).bound_levels[measure] for look in procedure.spending]
        error = sum(1 - level for level in levels) * max(1, variants - 1)
        assert (0.79 if once else 0.9) * NO_WORSE_ERROR < error <= NO_WORSE_ERROR * (1 + 1e-9)
        # A bound is never at a higher level than the side of an interval.
        assert shares[measure].of_bound >= shares[measure].of_each / 2


# -- the looks -----------------------------------------------------------------------------------


def test_the_planned_end_spends_four_fifths_and_extensions_half_of_what_is_left_each() -> None:
    assert declared(18, 18).spending == pytest.approx(
        {6: 0.8 / 9, 10: 0.8 * (100 - 36) / 324, 18: 0.8 * (1 - 100 / 324),
         27: 0.1, 36: 0.05, 54: 0.025, 72: 0.0125}
    )  # fmt: skip
    assert declared(7, 7).extensions == (11, 14, 21, 28)
    assert declared(1, 1).extensions == (2, 3, 4)


def test_where_the_budget_ended_a_design_is_a_look_by_the_same_spending() -> None:
    shares = declare_shares(list_judged(["solo", "duet"]), 5, 1)
    procedure = declare_procedure(6, shares, [5])
    assert procedure.looks == (6,)
    assert [procedure.after(n).reached for n in (4, 5, 6, 7, 9)] == [None, 5, 6, 6, 9]
    spending = procedure.spending
    assert spending[5] == pytest.approx(0.8 * 25 / 36)
    assert spending[6] == pytest.approx(0.8 * 11 / 36)
    assert procedure.after(5).goal == 6
    assert procedure.extensions == declare_procedure(6, shares).extensions


@pytest.mark.parametrize(
    ("blocks", "reached"), [(0, None), (5, None), (6, 6), (9, 6), (10, 10), (18, 18), (30, 27)]
)
def test_between_two_looks_the_last_one_stands(blocks: int, reached: int | None) -> None:
    procedure = declared(18, blocks)
    assert procedure.reached == reached
    if reached:
        assert procedure.levels == declared(18, reached).levels


# -- campaigns -----------------------------------------------------------------------------------


@pytest.fixture
def current(make: Make) -> Callable[..., Campaign]:
    """``current("name", blocks, planned, …)``: a campaign of so many blocks."""

    def build(name: str, blocks: int, planned: int, **how: object) -> Campaign:
        directory = make(name, blocks=blocks, sql=mark_current(planned), **how)
        return load_campaign(directory)

    return build


def figures(comparisons: Comparisons) -> list[tuple[str, str, float, float, Verdict]]:
    return [
        (c.variant, c.metric.key, c.ratio.low, c.ratio.high, c.verdict)
        for c in comparisons.family
        if c.ratio
    ]


def test_a_report_between_two_looks_gives_the_last_ones_verdicts(
    current: Callable[..., Campaign],
) -> None:
    at_look, after = current("six", 6, 9), current("eight", 8, 9)
    found = figures(compare_with_baseline(at_look))
    assert found == figures(compare_with_baseline(after))
    assert found != figures(compare_with_baseline(current("nine", 9, 9)))
    assert compare_with_baseline(after).descriptive[-1].ratio.blocks == 6  # type: ignore[union-attr]


def test_the_looks_where_the_budget_ended() -> None:
    shares = declare_shares(list_judged(["solo", "duet"]), 5, 1)

    def at(blocks: int, *looks: int) -> Procedure:
        return declare_procedure(6, shares, looks).after(blocks)

    over = {"duet": "budget", "solo": "planned"}
    assert list_budget_looks({"duet": at(5), "solo": at(6)}, over) == {"duet": [5]}
    # An extension was cut at five.
    assert list_budget_looks({"duet": at(5, 3), "solo": at(6)}, over) == {"duet": [3]}
    assert list_budget_looks({"duet": at(5, 5), "solo": at(6, 2)}, over) == {
        "duet": [5],
        "solo": [2],
    }
    assert list_budget_looks({"duet": at(1), "solo": at(6)}, over) == {}  # no interval of one block
    assert list_budget_looks({"duet": at(5), "solo": at(6)}, {"solo": "planned"}) == {}


def test_a_campaign_that_its_budget_ended_has_verdicts_of_the_blocks_that_it_has(
    make: Make,
) -> None:
    ended = (
        "INSERT OR REPLACE INTO campaign VALUES ('budget_looks', '{\"solo\": [5], \"duet\": [5]}')",
    )
    early = load_campaign(make("early", blocks=5, sql=(*mark_current(6), *ended)))
    compared = compare_with_baseline(early)
    assert all(c.ratio and c.ratio.blocks == 5 and c.ratio.interval for c in compared.family)
    later = load_campaign(make("later", blocks=6, sql=(*mark_current(6), *ended)))
    without = load_campaign(make("without", blocks=6, sql=mark_current(6)))
    for with_look, alone in zip(
        compare_with_baseline(later).family, compare_with_baseline(without).family, strict=True
    ):
        assert with_look.ratio
        assert alone.ratio
        assert with_look.ratio.blocks == 6
        assert with_look.ratio.confidence > alone.ratio.confidence  # a part was spent before


def test_before_the_first_look_there_are_no_verdicts_and_no_intervals(
    current: Callable[..., Campaign],
) -> None:
    found = compare_with_baseline(current("five", 5, 6))
    assert {c.verdict for c in found.family} == {Verdict.NOT_JUDGED}
    assert not any(c.ratio and c.ratio.interval for c in found.family)
    assert all(c.ratio and c.ratio.interval for c in found.descriptive)


def test_idle_rss_is_descriptive_and_each_metric_has_its_own_level(
    current: Callable[..., Campaign],
) -> None:
    campaign = current("six", 6, 6)
    found = compare_with_baseline(campaign)
    assert {m.key.partition(":")[0]: m.question for m in list_metrics(campaign)} == {
        "tps": "speed",
        "rss_peak": "memory",
        "rss_idle": None,
    }
    levels = {c.metric.measure.name: c.ratio.confidence for c in found.family if c.ratio}
    assert levels == pytest.approx({"tps": 1 - 0.8 * 0.025 / 2, "rss_peak": 1 - 0.8 * 0.025 / 2})
    assert {c.metric.measure.name for c in found.descriptive} == {"rss_idle"}
    assert {c.ratio.confidence for c in found.descriptive if c.ratio} == {0.95}


def test_variances_are_moderated_with_the_floor_on_the_variants_scale(
    current: Callable[..., Campaign],
) -> None:
    campaign = current("six", 6, 6)
    found = compare_with_baseline(campaign)
    for metric in found.metrics:
        own = {
            c.variant: Variance(
                c.ratio.own_scatter**2 * (0.75 if c.variant == "glibc" else 1), c.ratio.blocks - 1
            )
            for c in [*found.family, *found.floor]
            if c.metric == metric and c.ratio
        }
        moderated = moderate_variances(own, 0.0125)
        assert len(moderated) == 3
        for c in found.family:
            if c.metric == metric and c.ratio:
                assert c.ratio.scatter**2 == pytest.approx(moderated[c.variant].value)
                assert c.ratio.freedom == moderated[c.variant].freedom


def test_a_variance_takes_two_blocks() -> None:
    with pytest.raises(ValueError, match="two blocks"):
        compute_variance([1.0])


def test_a_faulty_variant_does_not_hold_up_the_stop(current: Callable[..., Campaign]) -> None:
    found = compare_with_baseline(current("faulty", 6, 6, faulty=("tuned",)))
    decided = [c for c in found.family if c.variant == "jemalloc"]
    sure = replace(decided[0].ratio, interval=Interval(1.02, 1.03)) if decided[0].ratio else None
    family = [replace(c, ratio=sure) if c.variant == "jemalloc" else c for c in found.family]
    assert "tuned" in found.faulty
    assert stopping_rule.is_design_decided(replace(found, family=family), "solo")
    assert not stopping_rule.is_design_decided(replace(found, family=family, faulty={}), "solo")
    everyone = {"tuned": (1, 1), "jemalloc": (1, 1)}
    assert not stopping_rule.is_design_decided(replace(found, faulty=everyone), "solo")


def test_what_is_shown_worse_but_maybe_within_the_margin_is_not_the_end(
    current: Callable[..., Campaign],
) -> None:
    found = compare_with_baseline(current("open", 6, 6))
    [some, *_] = [c.ratio for c in found.family if c.ratio]

    def decided(low: float, high: float) -> bool:
        ends = Interval(low, high)
        family = [
            replace(
                c,
                ratio=replace(some, interval=ends, bounds=ends)
                if c.metric.better == "lower"
                else replace(some, interval=ends, bounds=ends).invert(),
            )
            for c in found.family
        ]
        judged = replace(found, family=family)
        assert stopping_rule.is_design_decided(judged, "solo"), "each verdict is there"
        return stopping_rule.is_design_decided(judged, "solo", margin=0.03)

    assert not decided(1.005, 1.04)
    assert decided(1.005, 1.02)
    assert decided(1.02, 1.04)
    assert decided(0.97, 0.995)


# -- extensions ----------------------------------------------------------------------------------


def test_an_extension_runs_to_declared_looks_alone() -> None:
    procedures = {"solo": declared(6, 6), "duet": declared(10, 10)}
    found = list_extensions(procedures, {"solo": 10.0, "duet": 2.0})
    assert found[0] == Extension(
        goals={"solo": 9, "duet": 15}, missing={"solo": 3, "duet": 5}, seconds=3 * 10 + 5 * 2
    )
    assert [e.goals["solo"] for e in found] == [9, 12, 18, 24]
    cut = list_extensions({"solo": declared(6, 4)}, {"solo": 10.0})
    assert cut[0] == Extension(goals={"solo": 6}, missing={"solo": 2}, seconds=20)
    assert list_extensions({"solo": declared(6, 24)}, {"solo": 10.0}) == []


def test_the_last_look_that_fits_is_chosen(make: Make) -> None:
    directory = make("six", blocks=6, sql=mark_current(6))
    assert plan_extension(directory, 27.0).goals == {"solo": 9}
    assert plan_extension(directory, 60.0).goals == {"solo": 12}
    with pytest.raises(
        UsageError, match=r"no look fits into 10s: the look at 9 solo blocks .*27 s"
    ):
        plan_extension(directory, 10.0)


def test_one_design_goes_on_alone(make: Make) -> None:
    directory = make("both", blocks=6, sql=mark_current(6), design="both")
    assert set(plan_extension(directory, 600.0).goals) == {"solo", "duet"}
    alone = plan_extension(directory, 600.0, "solo")
    assert set(alone.goals) == {"solo"}
    assert alone.seconds == alone.missing["solo"] * 9.0
    with pytest.raises(UsageError, match=r"--design turns: .* has no turns blocks to go on from"):
        plan_extension(directory, 600.0, "turns")


def test_what_cannot_be_extended(make: Make) -> None:
    decided = (
        *mark_current(6),
        "INSERT OR REPLACE INTO campaign VALUES ('decided', '{\"solo\": 6}')",
    )
    with pytest.raises(UsageError, match="every comparison is decided"):
        plan_extension(make("decided", blocks=6, sql=decided), 600.0)
    with pytest.raises(UsageError, match="the last extension that was declared is done"):
        plan_extension(make("done", blocks=24, sql=mark_current(6)), 600.0)


# -- two campaigns -------------------------------------------------------------------------------


def test_campaigns_that_stopped_at_a_look_are_compared_at_its_level(
    make: Make, current: Callable[..., Campaign]
) -> None:
    early, late = current("early", 6, 10), current("late", 10, 10)
    found = compare_campaigns(early, late)
    share = 0.8 * 0.36 * 0.8 * 0.64
    for figure in found.figures:
        assert figure.ratio
        level = 1 - 0.025 / 2 * share if figure.metric.question else 0.95
        assert figure.ratio.confidence == pytest.approx(level)
    assert [look.words for look in found.looks] == ["the first's solo blocks: 6 of 10 planned"]
    assert {f.metric.measure.condition for f in found.figures if f.metric.question} == {
        "tps",
        "rss",
    }


def test_a_campaign_before_its_first_look_is_not_compared(current: Callable[..., Campaign]) -> None:
    found = compare_campaigns(current("young", 4, 6), current("whole", 6, 6))
    why = {found.no_verdict(f) for f in found.figures if f.metric.question}
    assert why == {"the first campaign is not judged yet"}


@given(st.integers(1, 60), st.integers(1, 60))
def test_the_shares_of_all_pairs_of_looks_add_up_to_no_more_than_one(a: int, b: int) -> None:
    total = 0.0
    for first in declared(a, a).spending:
        for second in declared(b, b).spending:
            pair = {"solo": declared(a, first)}, {"solo": declared(b, second)}
            total += find_look_share(pair[0], "solo") * find_look_share(pair[1], "solo")
    assert total <= 1 + 1e-9


def test_procedures_know_what_the_duet_leaves_out(make: Make) -> None:
    duet = json.dumps({"halves": ["0", "1"], "threads": 1, "left_out": {"tuned": "THP"},
                       "estimate": "middle"})  # fmt: skip
    sql = (*mark_current(6), f"UPDATE campaign SET value = '{duet}' WHERE key = 'duet'")
    campaign = load_campaign(make("both", blocks=6, sql=sql, design="both"))
    assert declare_procedures(campaign)["duet"].shares[CPU].comparisons == 1


def test_a_fall_is_told_as_a_fall() -> None:
    assert convert_to_fall(0.49) == pytest.approx(0.329, abs=1e-3)
    assert convert_to_fall(float("inf")) == 1.0


def test_finalists_of_other_confirmations_share_the_error(make: Make) -> None:
    elsewhere = "INSERT OR REPLACE INTO campaign VALUES ('compared_elsewhere', '2')"
    alone = load_campaign(make("alone", sql=mark_current(6)))
    shared = load_campaign(make("shared", sql=(*mark_current(6), elsewhere)))
    few, many = (declare_procedures(campaign)["solo"] for campaign in (alone, shared))
    # Two variants here, and two finalists elsewhere.
    assert {m: s.comparisons for m, s in many.shares.items()} == {
        m: 2 * s.comparisons for m, s in few.shares.items()
    }
    assert all(many.levels[measure] > level for measure, level in few.levels.items())
