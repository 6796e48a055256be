"""The answer in words, for each mix of verdicts."""

import math

import pytest

from dballoc.analysis.decisions.recommendation import recommend
from dballoc.analysis.decisions.sequential_test import count_comparisons, declare_procedure
from dballoc.analysis.statistics.ratio_interval import Ratio
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, Metric
from dballoc.report.wording.answer import Answer, Progress, compose_answer, describe_verdict

TPS = Metric(
    key="tps:oltp",
    title="oltp, transactions per second at 16 clients",
    unit="1/s",
    better="higher",
    workload="oltp",
)
READS = Metric(
    key="tps:reads",
    title="reads, transactions per second at 16 clients",
    unit="1/s",
    better="higher",
    workload="reads",
)
PEAK = Metric(key="rss_peak", title="peak RSS", unit="bytes", better="lower")
IDLE = Metric(key="rss_idle", title="idle RSS after the load", unit="bytes", better="lower")

CPU = Metric(
    key="cpu:oltp",
    title="oltp, server CPU per transaction at half width",
    unit="µs",
    better="lower",
    workload="oltp",
    design="duet",
)

LOWER, HIGHER, EQUAL, OPEN = (0.96, 0.98), (1.02, 1.04), (0.995, 1.005), (0.97, 1.05)


def ratio(interval: tuple[float, float], blocks: int = 6) -> Ratio:
    low, high = interval
    if blocks < 2:
        return Ratio(
            estimate=math.sqrt(low * high),
            low=0.0,
            high=math.inf,
            blocks=blocks,
            confidence=0.99,
            scatter=math.nan,
        )
    return Ratio(
        estimate=math.sqrt(low * high),
        low=low,
        high=high,
        blocks=blocks,
        confidence=0.99,
        scatter=0.01,
    )


def comparisons(
    variants: dict[str, tuple[tuple[float, float], tuple[float, float]] | None],
    faulty: dict[str, tuple[int, int]] | None = None,
    blocks: int = 6,
    metrics: tuple[Metric, ...] = (TPS, PEAK, IDLE),
) -> Comparisons:
    """``variants``: the intervals of speed and memory, or None without any figure."""
    family = [
        Comparison(name, m, ratio(found[0 if m.workload else 1], blocks) if found else None)
        for name, found in variants.items() for m in metrics
    ]  # fmt: skip
    floor = [Comparison("glibc", m, ratio(OPEN, blocks)) for m in metrics]
    designs = sorted({m.design for m in metrics}, reverse=True)
    declared = declare_procedure(6, count_comparisons(designs, len(variants) + 1, 1))
    return Comparisons(
        procedures=dict.fromkeys(designs, declared),
        metrics=list(metrics),
        family=family,
        floor=floor,
        faulty=faulty or {},
    )


def solo(blocks: int, planned: int, ending: str | None = None, disturbed: int = 0) -> Progress:
    return Progress(
        blocks={"solo": blocks}, planned={"solo": planned}, ending=ending, disturbed=disturbed
    )


def say(found: Comparisons, done: Progress | None = None) -> Answer:
    six = dict.fromkeys(found.procedures, 6)
    return compose_answer(
        found,
        recommend(found, "glibc"),
        "glibc",
        done or Progress(blocks=six, planned=six, ending="planned"),
    )


def test_the_one_with_the_least_memory_is_recommended_with_its_interval() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER), "tcmalloc": (EQUAL, HIGHER)}))
    assert said.headline == "Recommended: jemalloc"
    assert "least peak RSS: 0.970 [0.960, 0.980] of glibc's" in said.reason


def test_every_variant_is_named_with_speed_and_memory_and_the_floor_stands_beside() -> None:
    said = say(comparisons({"jemalloc": (OPEN, LOWER), "tcmalloc": (LOWER, HIGHER)}))
    text = " ".join(said.sentences)
    assert (
        "jemalloc: throughput 1.009 [0.970, 1.050], no difference shown (smallest detectable: "
        in text
    )
    assert "and peak RSS 0.970 [0.960, 0.980], lower" in text
    assert (
        "tcmalloc: throughput 0.970 [0.960, 0.980], lower, and peak RSS 1.030 [1.020, 1.040], higher"
        in text
    )
    assert (
        "The A/A floor, glibc against itself: throughput 1.009 [0.970, 1.050] and peak RSS" in text
    )


def test_what_is_open_of_the_recommended_ones_speed_is_said() -> None:
    assert (
        "Its throughput is undecided: between −3.0 % and +5.0 %."
        in say(comparisons({"jemalloc": (OPEN, LOWER)})).reason
    )
    assert "undecided" not in say(comparisons({"jemalloc": (EQUAL, LOWER)})).reason


def test_a_tie_goes_to_the_baseline() -> None:
    said = say(comparisons({"jemalloc": (HIGHER, EQUAL), "tcmalloc": (HIGHER, HIGHER)}))
    assert said.headline == "Recommended: stay with glibc"
    assert (
        said.reason
        == "No variant is shown to need less peak RSS than glibc, and ties go to the baseline."
    )


def test_undecided_is_said_plainly() -> None:
    said = say(comparisons({"jemalloc": (OPEN, OPEN), "tcmalloc": (OPEN, HIGHER)}))
    assert said.headline == "Undecided: stay with glibc"
    assert said.reason.endswith("Peak RSS is undecided for jemalloc.")


def test_one_that_is_shown_to_be_slower_is_left_out_and_that_is_said() -> None:
    said = say(comparisons({"jemalloc": (LOWER, LOWER)}))
    assert said.headline == "Recommended: stay with glibc"
    assert "jemalloc (shown to be slower by more than 1 %) alone" in said.reason


def test_one_with_faults_gets_no_verdict() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)}, {"jemalloc": (2, 6)})
    said = say(found)
    assert said.headline == "Recommended: stay with glibc"
    assert "jemalloc (faults) alone" in said.reason
    assert said.variants[0].text.endswith(
        "peak RSS 0.970 [0.960, 0.980], no verdict: 2 of 6 trials ended in a fault"
    )


def test_one_without_any_figure_is_named_too() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER), "broken": None}, {"broken": (6, 6)}))
    assert (said.variants[1].name, said.variants[1].text) == (
        "broken",
        "no verdict: 6 of 6 trials ended in a fault",
    )


def test_a_baseline_with_faults_ends_all_verdicts() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)}, {"glibc": (3, 12)})
    said = say(found)
    assert said.headline == "No recommendation"
    assert "glibc is the baseline, and 3 of 12 trials of it ended in a fault" in said.reason
    assert (
        describe_verdict(found.family[0], found)
        == "no verdict: 3 of 12 trials of glibc ended in a fault"
    )


def test_one_block_decides_nothing() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)}, blocks=1)
    said = say(found, solo(1, 1, "planned"))
    assert said.headline == "No recommendation yet"
    assert "One block shows figures but decides nothing" in said.reason
    assert said.variants[0].text == "throughput 1.000 and peak RSS 0.970, no verdict from one block"


def test_no_block_at_all() -> None:
    said = say(comparisons({"jemalloc": None}), solo(0, 6, "interrupted"))
    assert said.headline == "No recommendation"
    assert said.reason.startswith("No block is complete yet")
    assert said.variants[0].text == "no figures yet"


def test_the_baseline_alone() -> None:
    assert say(comparisons({})).headline == "Nothing to compare"


@pytest.mark.parametrize(
    ("done", "word", "note"),
    [
        (solo(6, 6), "Recommended", None),
        (
            solo(4, 6, "budget"),
            "Recommended",
            "The budget was used up: 4 of 6 solo blocks that were planned.",
        ),
        (
            solo(4, 6, "decided"),
            "Recommended",
            "Every comparison was decided: 4 of 6 solo blocks that were planned.",
        ),
        (
            solo(4, 6, "interrupted"),
            "So far",
            "The campaign was interrupted: 4 of 6 solo blocks. Solo verdicts are judged",
        ),
        (
            solo(4, 6),
            "So far",
            "The campaign is not finished: 4 of 6 solo blocks. Solo verdicts are judged after 6 blocks",
        ),
        (solo(6, 6, "planned", 2), "Recommended", "counted all the same: 2 of 6 blocks."),
    ],
)
def test_how_far_the_campaign_is(done: Progress, word: str, note: str | None) -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER)}), done)
    assert said.headline == f"{word}: jemalloc"
    assert note is None or any(note in n for n in said.notes)


def test_a_baseline_that_differs_from_itself_is_a_warning() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)})
    drifting = [Comparison("glibc", m, ratio(HIGHER)) for m in found.metrics]
    said = say(
        Comparisons(
            procedures=found.procedures,
            metrics=found.metrics,
            family=found.family,
            floor=drifting,
            faulty={},
        )
    )
    assert any(
        "glibc differs from itself (throughput, peak RSS and idle RSS after the load)" in n
        for n in said.notes
    )


def test_workloads_are_named_where_there_are_several() -> None:
    said = say(comparisons({"jemalloc": (OPEN, LOWER)}, metrics=(TPS, READS, PEAK)))
    assert "throughput in oltp 1.009" in said.variants[0].text
    assert "throughput in reads 1.009" in said.variants[0].text


def test_a_smallest_detectable_difference_without_end_is_not_printed_in_full() -> None:
    wide = Ratio(estimate=1.0, low=0.001, high=900.0, blocks=2, confidence=0.99, scatter=2.0)
    found = comparisons({"jemalloc": (OPEN, OPEN)})
    assert (
        describe_verdict(Comparison("jemalloc", TPS, wide), found)
        == "no difference shown (smallest detectable: > 1,000 %)"
    )


def test_of_both_designs_each_figure_has_its_name_and_each_design_its_note() -> None:
    found = comparisons({"jemalloc": (LOWER, LOWER)}, metrics=(CPU, PEAK))
    said = say(found)
    assert "jemalloc: CPU per transaction 0.970 [0.960, 0.980], lower, and peak RSS" in " ".join(
        said.sentences
    )
    assert [note.partition(":")[0] for note in said.notes if "Intervals at" in note] == [
        "Solo",
        "Duet",
    ]
    half = Progress(
        blocks={"solo": 6, "duet": 4}, planned={"solo": 6, "duet": 10}, ending="interrupted"
    )
    assert (
        "6 of 6 solo blocks, 4 of 10 duet blocks. Duet verdicts are judged after 6 blocks"
        in " ".join(say(found, half).notes)
    )


@pytest.mark.parametrize(
    ("cpu", "headline"),
    [
        (LOWER, "Least CPU per transaction: jemalloc"),
        (HIGHER, "No variant is shown to need less CPU per transaction than glibc"),
    ],
)
def test_a_duet_alone_says_nothing_of_memory(cpu: tuple[float, float], headline: str) -> None:
    said = say(comparisons({"jemalloc": (cpu, cpu)}, metrics=(CPU,)))
    assert said.headline == headline
    assert "Memory was not compared" in said.reason
