"""A malloc against itself: the twins, what is made of their scatter, and the words."""

import json
import math

import numpy as np
import pytest
import simulate
from example_procedures import mark_current
from example_ratios import make_metric, make_ratio
from example_results import Make
from simulate import Host, logs, logs_of_floor, times

from dballoc.cli.shared import experiment_from_flags
from dballoc.cli.verbs.aa import build_twins
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.questions.compare.baseline_comparison import Comparison
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.measures import Metric, list_judged
from dballoc.questions.compare.procedure import declare_procedure, declare_shares
from dballoc.questions.resolution import answer
from dballoc.questions.resolution.figures import (
    DIFFERENCES,
    MetricResolution,
    Resolution,
    compute_resolution,
)
from dballoc.questions.statistics.detectable_difference import Need, Scatter, compute_half_width
from dballoc.questions.statistics.ratio_interval import count_common_freedom

TPS = make_metric("tps:reads", 16)

PEAK = make_metric("rss_peak")


# -- the experiment ------------------------------------------------------------------------------------------------------


def test_the_baselines_twin_has_all_that_the_baseline_has(experiment) -> None:
    tuned = {
        "name": "tuned",
        "allocator": "jemalloc",
        "tunables": {"narenas": "2"},
        "server": {"options": {"a": "1"}},
    }
    found = build_twins(
        experiment(baseline="tuned", variant=[{"name": "glibc"}, tuned], seed=7), "here"
    )
    assert [v.name for v in found.variant] == ["tuned", "tuned-again"]
    assert (
        found.variant[1].model_copy(update={"name": "tuned"})
        == found.variant[0]
        == Experiment.model_validate(
            {"baseline": "tuned", "workloads": ["w"], "threads": [1], "variant": [tuned]}
        ).variant[0]
    )
    assert (found.seed, found.baseline, found.threads) == (7, "tuned", [1, 4])


def test_the_shipped_experiment_is_its_own_twins() -> None:
    model = experiment_from_flags.experiment(None, "aa", {})
    assert build_twins(model, "here") == model


def test_a_name_that_leaves_no_room_for_the_twins(experiment) -> None:
    long = "n" * 62
    with pytest.raises(UsageError, match=r"^here: variant .*is not a name"):
        build_twins(experiment(baseline=long, variant=[{"name": long}]), "here")


# -- the scatter ---------------------------------------------------------------------------------------------------------


def test_the_floor_tells_as_much_of_the_scatter_as_the_twin_and_something_else() -> None:
    """On a host that drifts too: what is pooled has the same scatter, and does not correlate."""
    when = times(simulate.experiment(1), 2000, 10)
    values = Host(luck=0.02, trend=0.1, walk=0.005, steps=2).values(np.random.default_rng(1), when)
    twin, floor = logs(values)[:, 0].ravel(), logs_of_floor(values).ravel()
    # 20 000 blocks: standard errors of half a per cent, and of 0.007.
    assert floor.std() * math.sqrt(Design.SOLO.traits.floor_to_variant) == pytest.approx(
        twin.std(), rel=0.025
    )
    assert abs(np.corrcoef(twin, floor)[0, 1]) < 0.03


# -- the promise ---------------------------------------------------------------------------------------------------------

TWINS = [{"name": "glibc"}, {"name": "tuned"}]


@pytest.mark.parametrize(("design", "longer"), [("solo", 2.0), ("duet", 2.5)])
def test_campaigns_of_more_variants_are_promised_what_they_get(
    make: Make, design: str, longer: float
) -> None:
    """A solo block of five has six starts and not three, one of the duet five pairings and not two;
    and more comparisons share the error.
    """
    sql = (*mark_current(6), "UPDATE trial SET rss_peak = 3e8 * (1 + 0.01 * (trial * 7 % 5))")
    campaign = load_campaign(make("twins", sql=sql, design=design, variant=TWINS))
    two, five = compute_resolution(campaign), compute_resolution(campaign, 5)
    assert (two.variants, five.variants) == (2, 5)
    assert two.promised_seconds == two.seconds
    assert five.promised_seconds == pytest.approx(five.seconds * longer)
    judged = [
        (few, many) for few, many in zip(two.metrics, five.metrics, strict=True)
        if few.twin.metric.question
    ]  # fmt: skip
    assert judged
    for few, many in judged:
        assert many.twin.metric == few.twin.metric
        assert many.block_seconds == pytest.approx(few.block_seconds * longer)
        n, sd = 6, few.scatter.sd  # type: ignore[union-attr]
        shares = declare_shares(list_judged([design]), 5, 1)
        level = declare_procedure(n, shares).levels[few.twin.metric.measure.name]
        borrowed = count_common_freedom(5, shares[few.twin.metric.measure.name].of_each)
        assert many.half_width == pytest.approx(compute_half_width(sd, n, level, borrowed))
        assert many.half_width > few.half_width


# -- the words -----------------------------------------------------------------------------------------------------------


def compared(metric: Metric, low: float, high: float, blocks: int = 6) -> Comparison:
    return Comparison("glibc-again", metric, make_ratio(low, high, blocks))


def resolved(
    metric: Metric,
    low: float = 0.98,
    high: float = 1.02,
    half_width: float = 0.021,
    blocks: int = 6,
) -> MetricResolution:
    twin = compared(metric, low, high, blocks)
    if blocks < 2:
        return MetricResolution(
            twin=twin,
            floor=twin,
            scatter=None,
            half_width=math.inf,
            detectable=math.inf,
            needs=[],
            block_seconds=20.0,
        )
    needs = [Need(0.01, 41, 25, 90), Need(0.02, 12, 8, 25), Need(0.05, 1, 1, 5)]
    return MetricResolution(
        twin=twin,
        floor=twin,
        scatter=Scatter(0.02, 10),
        half_width=half_width,
        detectable=half_width * 1.4,
        needs=needs,
        block_seconds=20.0,
    )


def said(*metrics: MetricResolution, faulty: dict | None = None, disturbed: int = 0) -> Resolution:
    blocks = max((m.blocks for m in metrics), default=0)
    return Resolution(
        baseline="glibc",
        twin="glibc-again",
        metrics=list(metrics),
        seconds=361.0,
        blocks=blocks,
        disturbed=disturbed,
        faulty=faulty or {},
    )


def test_what_this_host_resolves_in_words() -> None:
    found = said(resolved(TPS), resolved(PEAK, 0.996, 1.004, 0.004))
    assert (
        answer.compose_headline(found)
        == "This host resolves ±2.1 % in throughput and ±0.4 % in peak RSS in 6 min"
    )
    assert (
        answer.explain_headline(found)
        == "glibc and glibc-again are the same, and are not seen to differ."
    )


def test_an_interval_that_says_nothing_is_not_printed_as_a_resolution() -> None:
    found = said(resolved(TPS, 0.3, 4.0, 3.0), resolved(PEAK, half_width=0.004))
    assert (
        answer.compose_headline(found)
        == "This host resolves ±0.4 % in peak RSS and nothing yet in throughput in 6 min"
    )
    table = answer.answer_resolution(found).table
    assert table is not None
    assert table.rows[0][-2:] == ["–", "–"]


def test_identical_variants_that_differ_are_a_clear_warning() -> None:
    found = said(resolved(TPS, 1.01, 1.04), resolved(PEAK))
    assert [m.metric for m in found.differing] == [TPS]
    words = answer.explain_headline(found)
    assert words.startswith(
        "WARNING: glibc and glibc-again are the same, and yet are seen to differ: throughput 1.025 [1.010, 1.040]."
    )
    assert "cannot be trusted" in words
    assert "dballoc doctor" in words
    assert "another --seed" in words
    assert answer.describe_resolution(found)["same"] is False


def test_what_it_takes() -> None:
    [section] = answer.make_needs_sections(said(resolved(TPS)))
    [table] = section.tables
    assert [table.columns, *table.rows] == [
        ["To resolve", "±1 %", "±2 %", "±5 %"],
        [
            "throughput",
            "41 blocks, 14 min\n(25 to 90)",
            "12 blocks, 4 min\n(8 to 25)",
            "1 block, 20 s\n(1 to 5)",
        ],
    ]


def test_what_is_out_of_reach() -> None:
    needs = [
        Need(0.01, None, None, None),
        Need(0.02, 9000, 5000, None),
        Need(0.05, 1500, 900, 4000),
    ]
    twin = compared(TPS, 0.3, 4.0)
    [section] = answer.make_needs_sections(
        said(
            MetricResolution(
                twin=twin,
                floor=twin,
                scatter=Scatter(0.8, 4),
                half_width=3.0,
                detectable=4.0,
                needs=needs,
                block_seconds=20.0,
            )
        )
    )
    assert section.tables[0].rows[0][1:] == [
        "out of reach",
        "9,000 blocks, 2 days\n(5,000 or many more)",
        "1,500 blocks, 8.3 h\n(900 to 4,000)",
    ]


def test_one_block_says_nothing() -> None:
    found = said(resolved(TPS, blocks=1))
    assert answer.compose_headline(found) == "This campaign does not say what this host resolves"
    assert (
        answer.explain_headline(found)
        == "Scatter needs two blocks, but there is 1; give it more time."
    )
    table = answer.answer_resolution(found).table
    assert table is not None
    assert table.rows == [["throughput", "1.000", "1", "–", "–", "–"]]
    assert answer.make_needs_sections(found) == []


def test_faults_are_said_before_anything_else() -> None:
    found = said(resolved(TPS), faulty={"glibc-again": (2, 6)})
    assert answer.explain_headline(found).startswith(
        "2 of 6 trials of glibc-again ended in a fault: "
    )


def test_disturbed_blocks_are_counted() -> None:
    assert "Disturbed by other work on the machine: 2 of 6 blocks." in answer.list_notes(
        said(resolved(TPS), disturbed=2)
    )


@pytest.mark.parametrize("blocks", [1, 6])
def test_json_is_json(blocks: int) -> None:
    # NaN and Infinity are none.
    found = json.loads(
        json.dumps(
            answer.describe_resolution(said(resolved(TPS, blocks=blocks))),
            allow_nan=False,
        )
    )
    (metric,) = found["metrics"]
    assert (metric["key"], metric["design"], metric["twin"]["blocks"]) == (
        "tps:reads",
        "solo",
        blocks,
    )
    if blocks > 1:
        assert [n["difference"] for n in metric["resolve"]] == list(DIFFERENCES)
        assert metric["resolve"][0]["seconds"] == 41 * 20.0
