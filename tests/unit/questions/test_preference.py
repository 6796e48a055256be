"""The rule of the recommendation, as the user would have it: how it is written, what it chooses,
how it is told.
"""

import json
from dataclasses import replace

import pytest
from example_ratios import make_metric
from example_results import Make
from judged_campaign import judge_whole
from test_report_answer import (
    EQUAL,
    HIGHER,
    LOWER,
    PEAK,
    READS,
    TPS,
    Progress,
    comparisons,
    ratio,
)

from dballoc.cli.results_verbs import report as verb
from dballoc.document.model import Answer
from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer.compose_answer import compose_answer
from dballoc.questions.campaign.answer.conditions_and_preference import (
    LEAST_MEMORY,
    check_preference,
    parse_margin,
    parse_preference,
)
from dballoc.questions.campaign.answer.recommendation import (
    Ending,
    compute_constraint_bounds,
    recommend,
)
from dballoc.questions.compare import baseline_comparison
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.campaign_tables import load_campaign

CPU = make_metric("cpu:oltp")
MUCH_LOWER, MUCH_HIGHER = (0.90, 0.94), (1.08, 1.12)


def say(found: Comparisons, prefer: str) -> Answer:
    return compose_answer(
        recommend(found, "glibc", parse_preference(prefer)),
        Progress(
            blocks=dict.fromkeys(found.procedures, 6),
            planned=dict.fromkeys(found.procedures, 6),
            ending="planned",
        ),
    )


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (None, "no worse than by 3 % in all else that is judged; of several the one with the largest gain, in memory first"),
        ("memory", "no worse than by 3 % in all else that is judged; of several the one with the largest gain, in memory first"),
        ("speed", "no worse than by 3 % in all else that is judged; of several the one with the largest gain, in speed first"),
        ("p99<=1.05", "better by more than 1 % in memory and to keep to p99<=1.05; of several"),
        ("p99 <= 1.05, rss<=1.1", "in memory and to keep to p99 <= 1.05 and rss<=1.1; of several"),
        ("speed,rss<=1.1", "better by more than 1 % in speed and to keep to rss<=1.1; of several"),
    ],
)  # fmt: skip
def test_the_rule_in_words(text: str | None, rule: str) -> None:
    assert rule in parse_preference(text).describe_rule(0.03)
    assert parse_preference(parse_preference(text).text) == parse_preference(text)


@pytest.mark.parametrize(
    ("text", "share"),
    [(None, None), ("3", 0.03), ("3%", 0.03), ("2.5 %", 0.025), ("50%", 0.5), ("0.5", 0.005)],
)
def test_a_margin(text: str | None, share: float | None) -> None:
    assert parse_margin(text) == share


@pytest.mark.parametrize("text", ["", "0", "-1%", "51%", "nan", "inf", "three", "3 %%"])
def test_what_is_no_margin_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--margin: .* above 0 and at most 50%$"):
        parse_margin(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give memory or speed"),
        ("memory,speed", "give memory or speed"),
        ("cheap", "'cheap' is not memory, speed, or a condition"),
        ("p99<=x", "is not a condition"),
        ("p98<=1", "no measure 'p98'"),
        ("tps>1.02", "excludes the baseline"),
        ("rss<=0.9", "excludes the baseline"),
    ],
)
def test_what_is_no_preference_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=r"^--prefer: ") as caught:
        parse_preference(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_preference_must_fit_the_campaign() -> None:
    check_preference(
        parse_preference("jemalloc:p99<=1.05,oltp:tps>=0.99"),
        ["glibc", "jemalloc"],
        ["oltp"],
        idle=True,
    )
    with pytest.raises(UsageError, match="no variant or workload 'hoard'"):
        check_preference(parse_preference("hoard:p99<=1.05"), ["glibc"], ["oltp"], idle=True)
    with pytest.raises(UsageError, match="no idle step"):
        check_preference(parse_preference("rss_idle<=1.05"), ["glibc"], ["oltp"], idle=False)


def test_the_speed_of_a_workload_is_its_cpu_where_that_is_a_primary_metric() -> None:
    assert baseline_comparison.choose_speed_metrics([TPS, READS, PEAK]) == [TPS, READS]
    assert baseline_comparison.choose_speed_metrics([TPS, CPU, READS, PEAK]) == [CPU, READS]
    assert baseline_comparison.choose_speed_metrics([CPU, TPS, PEAK]) == [CPU]
    cheaper = Comparison("a", CPU, ratio(MUCH_LOWER))
    found = baseline_comparison.compute_speed(cheaper)
    assert found
    assert (found.low, found.high) == pytest.approx((1 / 0.94, 1 / 0.90))
    assert not baseline_comparison.is_shown_slower(cheaper)
    assert baseline_comparison.is_shown_slower(Comparison("a", CPU, ratio(MUCH_HIGHER)), 0.01)
    unknown = baseline_comparison.compute_speed(Comparison("a", CPU, ratio(EQUAL, blocks=1)))
    assert unknown
    assert unknown.interval is None


def test_cpu_shown_higher_is_worse_too() -> None:
    found = comparisons({"a": (EQUAL, LOWER)}, metrics=(TPS, CPU, PEAK))
    family = [
        Comparison(c.variant, c.metric, ratio(MUCH_HIGHER)) if c.metric == CPU else c
        for c in found.family
    ]
    changed = replace(found, family=family)
    assert recommend(found, "glibc").variant == "a"
    assert recommend(changed, "glibc").excluded == {
        "a": "it is shown to be worse in oltp, server CPU per transaction at half width"
    }


def test_the_question_that_comes_first_chooses_among_several() -> None:
    found = comparisons({"a": (EQUAL, LOWER), "b": (MUCH_HIGHER, EQUAL), "c": (HIGHER, EQUAL)})
    assert say(found, "memory").headline == "Use a"
    assert say(found, "speed").headline == "Use b"


def test_a_gain_in_the_other_question_counts_where_the_first_has_none() -> None:
    assert say(comparisons({"a": (EQUAL, LOWER)}), "speed").headline == "Use a"
    assert say(comparisons({"a": (HIGHER, EQUAL)}), "memory").headline == "Use a"


def test_with_conditions_only_the_question_asked_counts() -> None:
    found = comparisons({"a": (HIGHER, EQUAL)})
    assert recommend(found, "glibc", parse_preference("rss<=1.1")).ending is Ending.STAY


def test_better_here_and_worse_there_is_a_choice() -> None:
    found = comparisons({"a": (HIGHER, EQUAL)}, metrics=(TPS, READS, PEAK))
    family = [
        Comparison(c.variant, c.metric, ratio((0.94, 0.95))) if c.metric == READS else c
        for c in found.family
    ]
    mixed = replace(found, family=family)
    assert recommend(found, "glibc", parse_preference("speed")).variant == "a"
    said = say(mixed, "speed")
    assert said.headline == (
        "A choice: a gains 5.0 % of throughput in oltp, costs 5.5 % of throughput in reads"
    )


# jemalloc needs the least memory; here its 99th percentile is worse by a tenth.
WORSE_TAIL = (
    "UPDATE step SET p99 = p99 * 1.1 WHERE trial IN (SELECT trial FROM trial WHERE variant = 'jemalloc')",
    "UPDATE trial SET rss_peak = rss_peak * 0.9 WHERE variant = 'tuned'",
)


def test_a_constraint_on_a_descriptive_figure(make: Make) -> None:
    campaign = load_campaign(make("a", sql=WORSE_TAIL))
    _, found, said = judge_whole(campaign)
    assert found.variant == "jemalloc"
    _, found, said = judge_whole(campaign, parse_preference("p99<=1.05"))
    assert found.excluded == {"jemalloc": "it is shown to break p99<=1.05"}
    assert found.variant == "tuned"
    assert said.headline == "Use tuned"
    assert "p99<=1.05 in oltp_read_only holds: 1.00" in said.reason
    _, found, _ = judge_whole(campaign, parse_preference("p99<=1.2"))
    assert found.variant == "jemalloc"
    # A constraint replaces the rule's own.
    assert judge_whole(campaign, parse_preference("p99<=1.2,tps>=0.99"))[1].variant == "jemalloc"


def test_a_constraint_on_a_primary_figure_has_its_interval(make: Make) -> None:
    campaign = load_campaign(make("a", sql=WORSE_TAIL))
    comparisons_, _, _ = judge_whole(campaign)
    bounds = compute_constraint_bounds(campaign, comparisons_, parse_preference("rss<=1.05"))
    found = comparisons_.find("tuned", next(m for m in comparisons_.metrics if m.key == "rss_peak"))
    assert found.ratio
    assert bounds["tuned"][0].ratio == found.ratio
    assert bounds["tuned"][0].metric.question == "memory"


def test_for_programs(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make("a", sql=WORSE_TAIL)
    verb.report(directory, prefer="p99<=1.05", as_json=True)
    printed = capsys.readouterr().out
    stored = (directory / "recommendation.json").read_text(encoding="utf-8")
    # A terminal would obey some characters.
    assert (printed.isascii(), stored.isascii()) == (True, False)
    assert json.loads(printed) == json.loads(stored)
    found = json.loads(printed)
    assert (found["recommended"], found["final"], found["prefer"], found["baseline"]) == (
        "tuned",
        True,
        "p99<=1.05",
        "glibc",
    )
    assert (found["answer"], found["subject"]) == ("use", "tuned")
    assert (found["margin"], found["exploratory"]) == (0.03, True)
    assert found["rule"] == parse_preference("p99<=1.05").describe_rule(0.03)
    baseline, jemalloc, tuned = found["candidates"]
    assert (baseline["variant"], baseline["baseline"]) == ("glibc", True)
    assert (jemalloc["variant"], jemalloc["excluded"]) == (
        "jemalloc",
        "it is shown to break p99<=1.05",
    )
    assert jemalloc["constraints"][0]["holds"] is False
    figures = {f["metric"]: f for f in tuned["figures"]}
    assert figures["rss_peak"]["verdict"] == "lower"
    assert (
        figures["rss_peak"]["low"] < figures["rss_peak"]["ratio"] < figures["rss_peak"]["high"] < 1
    )
    assert {f["metric"] for f in found["floor"]} == {"tps", "rss_peak"}
    assert parse_preference("p99<=1.05").describe_rule(0.03) in (
        directory / "report.html"
    ).read_text(encoding="utf-8").replace("&lt;", "<").replace("\u00a0", " ")


def test_one_block_recommends_nothing(make: Make) -> None:
    from dballoc.questions.report_content import gather_report

    data = gather_report(load_campaign(make("a", blocks=1))).data
    assert (data["recommended"], data["tie"]) == (None, None)
    assert all(f["low"] is None for c in data["candidates"] for f in c["figures"])
    assert LEAST_MEMORY.text == data["prefer"] == "memory"
