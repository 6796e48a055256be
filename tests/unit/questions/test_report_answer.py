"""The answer in words, for each mix of verdicts."""

from dataclasses import replace
from pathlib import Path

import pytest
from example_ratios import make_metric, make_ratio

from dballoc.document.model import Answer
from dballoc.questions.campaign.answer.answer_table import TailLatency
from dballoc.questions.campaign.answer.compose_answer import Surroundings, compose_answer
from dballoc.questions.campaign.answer.conditions_and_preference import parse_preference
from dballoc.questions.campaign.answer.recommendation import RecommendationBasis, recommend
from dballoc.questions.campaign.answer.settling_time import SettlingTime, Way, list_open_figures
from dballoc.questions.compare.answer_words import Progress, describe_verdict
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.measures import Metric, list_judged
from dballoc.questions.compare.procedure import declare_procedure, declare_shares
from dballoc.questions.statistics.ratio_interval import Interval, Ratio

TPS = make_metric("tps:oltp", 16)
READS = make_metric("tps:reads", 16)
PEAK = make_metric("rss_peak")
IDLE = make_metric("rss_idle")

CPU = make_metric("cpu:oltp")

LOWER, HIGHER, EQUAL, OPEN = (0.94, 0.96), (1.04, 1.06), (0.995, 1.005), (0.96, 1.05)
FAR = (0.90, 0.92)


def ratio(interval: tuple[float, float], blocks: int = 6) -> Ratio:
    return make_ratio(*interval, blocks=blocks, scatter=0.01)


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
    declared = declare_procedure(6, declare_shares(list_judged(designs), len(variants) + 1, 1))
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


def say(
    found: Comparisons,
    done: Progress | None = None,
    prefer: str | None = None,
    evidence: RecommendationBasis | None = None,
    around: Surroundings | None = None,
) -> Answer:
    six = dict.fromkeys(found.procedures, 6)
    return compose_answer(
        recommend(found, "glibc", parse_preference(prefer), evidence),
        done or Progress(blocks=six, planned=six, ending="planned"),
        around,
    )


def cells(said: Answer, name: str) -> list[str]:
    assert said.table
    return next(row for row in said.table.rows if row[0].split("\n")[0] == name)


def test_more_time_may_settle_what_is_undecided_of_another_variant() -> None:
    """It may even change the answer."""
    open_variant = comparisons({"jemalloc": (EQUAL, LOWER), "tcmalloc": (EQUAL, OPEN)})
    assert say(open_variant).reason.endswith("More time may settle what is undecided of tcmalloc.")
    choice = comparisons({"jemalloc": (LOWER, LOWER), "tcmalloc": (EQUAL, OPEN)})
    assert say(choice).headline.startswith("A choice: jemalloc ")
    assert say(choice).reason.endswith("More time may settle what is undecided of tcmalloc.")
    shown = comparisons({"jemalloc": (LOWER, LOWER)})
    assert say(shown).reason.endswith("More time would only narrow the intervals.")


def test_a_contender_is_named_with_what_would_settle_it() -> None:
    """More time may put it in the place of the one that the answer names."""
    more = Surroundings(settling=SettlingTime(way=Way.EXTEND, minutes=12))
    said = say(comparisons({"jemalloc": (EQUAL, LOWER), "tcmalloc": (OPEN, FAR)}), around=more)
    assert said.headline == "Use jemalloc"
    assert said.reason.endswith(
        "tcmalloc may be better still: it saves 9.0 % of peak RSS. 12 more minutes would settle "
        "it, with 80 % chance, if the true ratio is as estimated:"
    )
    assert said.command == "dballoc bench --out DIR --extend 12m"
    found = comparisons({"jemalloc": (EQUAL, LOWER), "tcmalloc": (OPEN, FAR)})
    interim = say(found, solo(4, 6), around=more)
    assert interim.headline == "So far: Use jemalloc"
    assert (interim.command, "tcmalloc" in interim.reason) == ("", False)
    choice = say(comparisons({"jemalloc": (LOWER, FAR), "tcmalloc": (OPEN, LOWER)}))
    assert choice.headline.startswith("A choice: jemalloc ")
    assert choice.reason.endswith(
        " tcmalloc may be better without such a loss: it saves 5.0 % of peak RSS."
    )


@pytest.mark.parametrize(
    "other",
    [(OPEN, (0.935, 0.955)), (OPEN, OPEN), ((0.90, 1.01), FAR), (EQUAL, LOWER)],
    ids=["a tie", "nothing shown", "loses by its estimate", "settled too"],
)
def test_who_is_no_contender(other: tuple[tuple[float, float], tuple[float, float]]) -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER), "tcmalloc": other})
    assert recommend(found, "glibc").contender is None
    assert " may be better " not in say(found).reason


def test_what_a_contender_lacks_is_open() -> None:
    found = recommend(comparisons({"jemalloc": (EQUAL, LOWER), "tcmalloc": (OPEN, FAR)}), "glibc")
    assert [figure.design for figure in list_open_figures(found)] == [TPS.design]


def test_use_the_one_that_is_better_and_loses_nothing() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER), "tcmalloc": (EQUAL, HIGHER)}))
    assert said.headline == "Use jemalloc"
    assert (
        said.reason
        == "It saves 5.0 % of peak RSS, and is shown to cost less than 3 % in throughput. More time "
        "would only narrow the intervals."
    )
    assert said.command == ""


def test_every_variant_has_a_row_and_the_floor_is_the_last() -> None:
    said = say(comparisons({"jemalloc": (OPEN, LOWER), "tcmalloc": (LOWER, HIGHER)}))
    assert said.table
    assert said.table.columns == ["", "peak RSS", "throughput"]
    assert said.table.rows == [
        ["jemalloc", "better 0.950\n[0.940, 0.960]", "undecided 1.004\nat least 0.960"],
        ["tcmalloc", "worse 1.050\n[1.040, 1.060]", "worse 0.950\n[0.940, 0.960]"],
        ["glibc\nA/A floor", "1.004\n[0.960, 1.050]", "1.004\n[0.960, 1.050]"],
    ]


def test_a_cell_shows_what_decided() -> None:
    """The interval of what is better or worse, else the bound; throughput's is the lower one."""
    found = comparisons({"jemalloc": (OPEN, (0.99, 1.04))})
    bounded = [
        replace(c, ratio=replace(c.ratio, bounds=Interval(0.981, 1.021)))
        for c in found.family
        if c.ratio
    ]
    said = say(replace(found, family=bounded))
    assert cells(said, "jemalloc") == [
        "jemalloc",
        "no worse 1.015\nat most 1.021",
        "no worse 1.004\nat least 0.981",
    ]
    assert said.table
    assert "no worse off the bound below the ratio: at most 1.03, of throughput at least 0.97." in (
        said.table.caption
    )


def test_a_gain_against_a_loss_is_a_choice() -> None:
    said = say(comparisons({"jemalloc": (LOWER, LOWER)}))
    assert said.headline == (
        "A choice: jemalloc saves 5.0 % of peak RSS, costs 5.0 % of throughput"
    )
    assert "yours to say" in said.reason
    said = say(comparisons({"jemalloc": (HIGHER, HIGHER)}))
    assert said.headline == (
        "A choice: jemalloc gains 5.0 % of throughput, costs 5.0 % more peak RSS"
    )


def test_a_collapse_is_a_loss() -> None:
    evidence = RecommendationBasis(
        collapsed={"jemalloc": "oltp between 8 and 64 (40 % of the best before)"}
    )
    said = say(comparisons({"jemalloc": (EQUAL, LOWER)}), evidence=evidence)
    assert said.headline == (
        "A choice: jemalloc saves 5.0 % of peak RSS, but its throughput collapses"
    )
    assert said.reason.startswith("Throughput collapses in oltp between 8 and 64")


@pytest.mark.parametrize(
    ("settling", "words", "command"),
    [
        (
            SettlingTime(way=Way.EXTEND, minutes=24),
            "24 more minutes would settle it, with 80 % chance, if the true ratio is as estimated:",
            "dballoc bench --out 'my results' --extend 24m",
        ),
        (
            SettlingTime(way=Way.NEW_CAMPAIGN, minutes=40, blocks=55),
            "A new campaign of 40 minutes would settle it, with 80 % chance,",
            "dballoc bench 'my results/experiment.toml' --blocks 55 --budget 40m "
            "--out 'my results-2'",
        ),
        (SettlingTime(way=Way.NOT_HERE), "More time would not settle it on this host", ""),
    ],
)
def test_what_would_settle_it(settling: SettlingTime, words: str, command: str) -> None:
    around = Surroundings(settling=settling, directory=Path("my results"))
    said = say(comparisons({"jemalloc": (OPEN, LOWER)}), around=around)
    assert said.headline == "jemalloc looks better, not settled"
    assert said.reason.startswith(
        "It saves 5.0 % of peak RSS. Not shown yet: that it costs less than 3 % in throughput. "
    )
    assert words in said.reason
    assert said.command == command


def test_an_estimate_alone_is_not_settled_either() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, (0.92, 1.01)), "tcmalloc": (EQUAL, EQUAL)}))
    assert said.headline == "jemalloc looks better, not settled"
    assert said.reason.startswith(
        "Its peak RSS is estimated to be better by more than 1 %, which is not shown."
    )


def test_nothing_better_is_to_stay() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, EQUAL), "tcmalloc": (EQUAL, HIGHER)}))
    assert said.headline == "Stay with glibc: nothing is shown to be better"
    assert said.reason == "Every variant is shown not to be better by more than 1 %."
    reaching = say(comparisons({"jemalloc": (EQUAL, (0.985, 1.005))}))
    assert reaching.reason.startswith("No variant is estimated to be better by more than 1 %.")


def test_one_with_faults_is_named_and_not_used() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER)}, {"jemalloc": (2, 6)}))
    assert said.headline == "Stay with glibc: nothing is shown to be better"
    assert said.reason == "jemalloc looks better, but 2 of 6 trials ended in a fault."
    assert cells(said, "jemalloc")[:2] == [
        "jemalloc\nfailed 2 of 6",
        "no verdict 0.950\n[0.940, 0.960]",
    ]


def test_one_without_any_figure_has_a_row_too() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER), "broken": None}, {"broken": (6, 6)}))
    assert cells(said, "broken") == ["broken\nfailed 6 of 6", "–", "–"]


def test_the_tail_that_is_shown_is_the_least_favourable_one() -> None:
    tails = [
        TailLatency(variant="jemalloc", workload="oltp", ratio=1.2, low=1.1, high=1.3),
        TailLatency(variant="jemalloc", workload="reads", ratio=1.1, low=0.8, high=1.5),
        TailLatency(variant="tuned", workload="oltp", ratio=0.9, low=None, high=None),
    ]
    found = comparisons(
        {"jemalloc": (EQUAL, LOWER), "tuned": (EQUAL, EQUAL), "other": (EQUAL, EQUAL)},
        metrics=(TPS, READS, PEAK),
    )
    said = say(found, around=Surroundings(tails=tails))
    assert said.table
    assert said.table.columns[-1] == "p99"
    assert {name: cells(said, name)[-1] for name in ("jemalloc", "tuned", "other", "glibc")} == {
        "jemalloc": "1.100\n[0.800, 1.500]\nreads",
        "tuned": "0.900\noltp",
        "other": "–",
        "glibc": "–",
    }
    assert "p99 at the highest level, with a plain 95 % interval and no verdict." in (
        said.table.caption
    )
    alone = say(comparisons({"jemalloc": (EQUAL, LOWER)})).table
    assert alone
    assert "p99" not in (*alone.columns, alone.caption)


def test_a_baseline_with_faults_ends_all_verdicts() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)}, {"glibc": (3, 12), "jemalloc": (1, 6)})
    said = say(found)
    assert said.headline == "The baseline failed 3 of 12: no ratio"
    assert "jemalloc too: 1 of 6 trials ended in a fault." in said.reason
    assert said.table is None
    assert (
        describe_verdict(comparisons({"a": (EQUAL, LOWER)}, {"glibc": (3, 12)}).family[0], found)
        == "no verdict: 3 of 12 trials of glibc ended in a fault"
    )


def test_one_block_decides_nothing() -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER)}, blocks=1), solo(1, 1, "planned"))
    assert said.headline == "Stay with glibc: nothing is shown to be better"
    assert "One block shows figures but decides nothing" in said.reason
    assert cells(said, "jemalloc")[1] == "undecided 0.950"


def test_no_block_at_all() -> None:
    said = say(comparisons({"jemalloc": None}), solo(0, 6, "interrupted"))
    assert said.headline.startswith("So far: Stay with glibc")
    assert said.reason.startswith("No block is complete yet")
    assert said.table is None


def test_the_baseline_alone() -> None:
    said = say(comparisons({}))
    assert said.headline == "Stay with glibc: nothing is shown to be better"
    assert said.reason == "glibc, the baseline, is the only variant."


@pytest.mark.parametrize(
    ("done", "word", "note"),
    [
        (solo(6, 6), "", None),
        (
            solo(4, 6, "budget"),
            "",
            "The budget was used up: 4 of 6 solo blocks that were planned.",
        ),
        (
            solo(4, 6, "decided"),
            "",
            "Every comparison was decided: 4 of 6 solo blocks that were planned.",
        ),
        (
            solo(4, 6, "interrupted"),
            "So far: ",
            "The campaign was interrupted: 4 of 6 solo blocks",
        ),
        (
            solo(4, 6),
            "So far: ",
            "The campaign is not finished: 4 of 6 solo blocks",
        ),
        (solo(6, 6, "planned", 2), "", "counted all the same: 2 of 6 blocks."),
    ],
)
def test_how_far_the_campaign_is(done: Progress, word: str, note: str | None) -> None:
    said = say(comparisons({"jemalloc": (EQUAL, LOWER)}), done)
    assert said.headline == f"{word}Use jemalloc"
    assert note is None or any(note in n for n in said.notes)


def test_what_is_not_finished_is_resumed() -> None:
    said = say(comparisons({"jemalloc": (OPEN, LOWER)}), solo(4, 6, "interrupted"))
    assert said.headline == "So far: jemalloc looks better, not settled"
    assert said.command == "dballoc bench DIR/experiment.toml --out DIR"


def test_a_margin_that_was_chosen_later_is_labelled() -> None:
    found = comparisons({"jemalloc": ((0.96, 0.995), LOWER)})
    assert say(found).headline == "jemalloc looks better, not settled"
    said = say(found, evidence=RecommendationBasis(margin=0.05, exploratory=True))
    assert said.headline == "Use jemalloc"
    assert any(n.startswith("Exploratory: the margin of 5 % was not stored") for n in said.notes)
    assert not any(n.startswith("Exploratory") for n in say(found).notes)


def test_a_baseline_that_differs_from_itself_is_a_warning() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)})
    drifting = [Comparison("glibc", m, ratio(HIGHER)) for m in found.metrics]
    said = say(replace(found, floor=drifting))
    assert any(
        "glibc differs from itself (throughput, peak RSS and idle RSS)" in n for n in said.notes
    )


def test_of_several_workloads_the_least_favourable_is_shown_with_its_name() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)}, metrics=(TPS, READS, PEAK))
    family = [
        Comparison(c.variant, c.metric, ratio(OPEN)) if c.metric == READS else c
        for c in found.family
    ]
    changed = replace(found, family=family)
    said = say(changed)
    assert cells(said, "jemalloc")[2] == "undecided 1.004\nat least 0.960\nreads"
    assert "Not shown yet: that it costs less than 3 % in throughput in reads." in said.reason


def test_a_smallest_detectable_difference_that_helps_nobody_is_said_in_words() -> None:
    wide = make_ratio(0.001, 900.0, blocks=2, scatter=2.0, estimate=1.0)
    found = comparisons({"jemalloc": (OPEN, OPEN)})
    assert (
        describe_verdict(Comparison("jemalloc", TPS, wide), found)
        == "no difference shown (too noisy here to show one of 10 %)"
    )


def test_of_both_designs_each_has_its_note() -> None:
    found = comparisons({"jemalloc": (LOWER, LOWER)}, metrics=(CPU, PEAK))
    said = say(found)
    assert said.headline == "Use jemalloc"
    assert said.reason.startswith("It saves 5.0 % of peak RSS and 5.0 % of CPU per transaction. ")
    assert [note.partition(":")[0] for note in said.notes][-3:-1] == ["Solo", "Duet"]
    assert said.notes[-1] == (
        "Intervals at 98.00 % (peak RSS), 99.60 % (throughput) and 98.40 % (CPU per transaction): "
        "over all looks all 3 together may be wrong in 5 % of campaigns at most. No worse: by "
        "one-sided bounds at 98.00 %; in 2.5 % of campaigns at most they pass a variant that is "
        "worse than the margin in something."
    )
    half = Progress(
        blocks={"solo": 6, "duet": 4}, planned={"solo": 6, "duet": 10}, ending="interrupted"
    )
    assert "6 of 6 solo blocks, 4 of 10 duet blocks." in " ".join(say(found, half).notes)


def test_to_stay_by_a_duet_alone_is_said_of_speed() -> None:
    found = comparisons({"jemalloc": (EQUAL, EQUAL)}, metrics=(CPU,))
    said = say(found)
    assert said.headline == "Stay with glibc: nothing is shown to be better"
    assert said.reason == (
        "Every variant is shown not to be better in speed by more than 1 %. "
        "Memory was not compared: that takes solo blocks, as in:"
    )
    assert said.command == "dballoc bench DIR/experiment.toml --design both --out DIR-2"
    asked = say(found, prefer="speed,cpu<=1.05")
    assert asked.reason == "Every variant is shown not to be better in speed by more than 1 %."
    assert asked.command == ""


def test_a_condition_beside_memory_that_was_not_compared() -> None:
    found = comparisons({"jemalloc": (LOWER, LOWER)}, metrics=(CPU,))
    said = say(found, prefer="cpu<=1.05")
    assert said.reason == "Memory was not compared: that takes solo blocks, as in:"
    assert said.command.startswith("dballoc bench DIR/experiment.toml --design both --out DIR-2")
    half = Progress(blocks={"duet": 4}, planned={"duet": 6}, ending="interrupted")
    assert say(found, half, prefer="cpu<=1.05").reason.startswith("Memory was not compared. The ")


def test_what_was_not_measured_of_the_one_to_use_is_said() -> None:
    found = comparisons({"jemalloc": (EQUAL, LOWER)}, metrics=(CPU, TPS, PEAK))
    said = say(found, evidence=RecommendationBasis(left_out=frozenset({"jemalloc"})))
    assert said.headline == "Use jemalloc"
    assert "Its CPU per transaction was not compared, as it plays no duets." in said.reason
    assert "not compared" not in say(found).reason
