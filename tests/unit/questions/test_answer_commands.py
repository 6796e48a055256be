"""The command under an answer does what the sentence above it says, on stored campaigns."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from example_procedures import mark_current
from example_results import Make
from judged_campaign import judge_whole

from dballoc.campaign.plan_extension import plan_extension
from dballoc.campaign.ways.way import BlockEstimate, DurationEstimate
from dballoc.cli.bench_parts.bench_campaign import describe_time
from dballoc.document.model import Answer
from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer import stopping_rule
from dballoc.questions.campaign.answer.answer_table import collect_tail_latencies
from dballoc.questions.campaign.answer.conditions_and_preference import (
    LEAST_MEMORY,
    Preference,
    parse_preference,
)
from dballoc.questions.campaign.answer.recommendation import Ending, Recommendation
from dballoc.questions.campaign.sections.duet import (
    _describe_duet,
    _describe_pairs,
    _describe_steal,
)
from dballoc.questions.campaign.sections.shared_sections import _describe_moderation
from dballoc.questions.compare.baseline_comparison import compare_with_baseline
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import declare_shares
from dballoc.questions.statistics.ratio_interval import Interval

MARGIN = "INSERT OR REPLACE INTO campaign VALUES ('margin', '0.03')"


def judge(directory: Path, preference: Preference = LEAST_MEMORY) -> tuple[Recommendation, Answer]:
    _, recommendation, answer = judge_whole(load_campaign(directory), preference, directory)
    return recommendation, answer


def scatter_throughput(share: float) -> str:
    """The SQL by which throughput scatters from trial to trial."""
    return f"UPDATE step SET tps = tps * (1 + {share} * ((trial * 7 % 5) - 2) / 2.0)"


def read_minutes(command: str) -> int:
    [minutes] = re.findall(r"--extend (\d+)m", command)
    return int(minutes)


def test_after_an_extension_the_next_declared_look_is_named(make: Make) -> None:
    """Six planned and nine finished: 12, 18 and 24 may follow, not multiples of nine."""
    directory = make("nine", blocks=9, sql=(*mark_current(6), MARGIN, scatter_throughput(0.03)))
    recommendation, answer = judge(directory)
    assert recommendation.ending is Ending.NOT_SETTLED
    extension = plan_extension(directory, read_minutes(answer.command) * 60.0)
    assert extension.goals["solo"] in (12, 18, 24)


def test_after_the_last_look_no_extension_is_named(make: Make) -> None:
    directory = make("last", blocks=24, sql=(*mark_current(6), MARGIN, scatter_throughput(0.10)))
    recommendation, answer = judge(directory)
    assert recommendation.ending is Ending.NOT_SETTLED
    assert "--extend" not in answer.command
    assert "--blocks" in answer.command


def test_a_decided_campaign_is_not_extended(make: Make) -> None:
    decided = (
        "INSERT OR REPLACE INTO campaign VALUES ('decided', '{\"solo\": 6}'), ('ending', 'decided')"
    )
    sql = (*mark_current(6), MARGIN, scatter_throughput(0.06), decided)
    _, answer = judge(make("decided", blocks=6, sql=sql))
    assert "--extend" not in answer.command
    assert re.search(r"--blocks \d+ --budget \d+m --out", answer.command)


def test_a_gain_that_is_not_shown_is_not_the_end(make: Make) -> None:
    """Peak RSS that is lower, and within the margin, but not by 1 % for sure."""
    compared = compare_with_baseline(load_campaign(make("six", blocks=6, sql=mark_current(6))))

    def is_decided(low: float, high: float, estimate: float) -> bool:
        memory, speed = Interval(low, high), Interval(0.995, 1.005)
        family = [
            replace(
                c,
                ratio=replace(c.ratio, interval=memory, bounds=memory, estimate=estimate)
                if c.metric.measure.name == "rss_peak"
                else replace(c.ratio, interval=speed, bounds=speed, estimate=1.0),
            )
            for c in compared.family
            if c.ratio
        ]
        judged = replace(compared, family=family)
        assert stopping_rule.is_design_decided(judged, "solo"), "each verdict is there"
        return stopping_rule.is_design_decided(judged, "solo", margin=0.03)

    assert not is_decided(0.970, 0.994, 0.982)
    assert is_decided(0.970, 0.989, 0.980)  # shown
    assert is_decided(0.988, 0.998, 0.993)  # not estimated to be one


def test_an_interrupted_extension_is_gone_on_with(make: Make) -> None:
    interrupted = "INSERT OR REPLACE INTO campaign VALUES ('ending', 'interrupted')"
    sql = (*mark_current(6), MARGIN, scatter_throughput(0.06))
    directory = make("seven", blocks=7, sql=(*sql, interrupted))
    _, answer = judge(directory)
    assert "The extension is not finished; this goes on with it:" in answer.reason
    assert plan_extension(directory, read_minutes(answer.command) * 60.0).goals["solo"] >= 9
    planned = "INSERT OR REPLACE INTO campaign VALUES ('ending', 'planned')"
    _, answer = judge(make("resumed", blocks=7, sql=(*sql, planned)))
    assert "An extension was not finished: 7 of 9 solo blocks." in answer.notes
    assert not any("budget" in note for note in answer.notes)


def test_an_extension_whose_look_is_far_off_names_no_command(make: Make) -> None:
    slow = "UPDATE block SET ended = started + 18000"
    interrupted = "INSERT OR REPLACE INTO campaign VALUES ('ending', 'interrupted')"
    sql = (*mark_current(6), MARGIN, scatter_throughput(0.06), slow, interrupted)
    _, answer = judge(make("slow", blocks=7, sql=sql))
    assert answer.reason.endswith("its next look takes more than 8.0 h.")
    assert answer.command == ""


def test_an_interrupted_extension_of_what_the_budget_ended_is_gone_on_with(make: Make) -> None:
    """The same command would run nothing: the budget is used up."""
    over = "INSERT OR REPLACE INTO campaign VALUES ('budget_looks', '{\"solo\": [6]}'), ('ending', '%s')"
    sql = (*mark_current(12), MARGIN, scatter_throughput(0.06))
    directory = make("cut", blocks=7, sql=(*sql, over % "interrupted"))
    _, answer = judge(directory)
    assert "The extension is not finished; this goes on with it:" in answer.reason
    assert plan_extension(directory, read_minutes(answer.command) * 60.0).goals["solo"] >= 12
    _, answer = judge(make("ended", blocks=6, sql=(*sql, over % "budget")))
    assert "The budget was used up: 6 of 12 solo blocks that were planned." in answer.notes


def test_before_the_first_look_nothing_is_said_of_estimates(make: Make) -> None:
    for blocks in (1, 3):
        _, answer = judge(make(f"young{blocks}", blocks=blocks, sql=(*mark_current(6), MARGIN)))
        assert answer.reason.startswith(
            "Nothing is judged yet: the first look is at 6 solo blocks."
        )
        assert "estimated" not in answer.reason
        assert "two give intervals" not in answer.reason
        assert answer.command.startswith("dballoc bench")


def test_of_two_designs_the_decided_one_is_named(make: Make) -> None:
    facts = (
        "INSERT OR REPLACE INTO campaign VALUES ('decided', '{\"solo\": 6}'), ('ending', 'planned')"
    )
    counts = json.dumps({"solo": 18, "duet": 6})
    sql = (
        *mark_current(6),
        f"UPDATE campaign SET value = '{counts}' WHERE key = 'planned_blocks'",
        facts,
    )
    _, answer = judge(make("two", blocks=6, sql=sql, design="both"))
    assert (
        "Every comparison of the solo design was decided: 6 of 18 solo blocks that were planned."
        in answer.notes
    )
    assert not any("budget was used up" in note for note in answer.notes)


def test_a_broken_condition_leaves_no_choice(make: Make) -> None:
    """jemalloc needs a quarter less memory, and breaks the condition."""
    slower = (
        "UPDATE step SET tps = tps * 0.9 WHERE trial IN "
        "(SELECT trial FROM trial WHERE variant = 'jemalloc')",
        "DELETE FROM trial WHERE variant = 'tuned'",
    )
    directory = make("one", blocks=6, sql=(*mark_current(6), MARGIN, *slower))
    recommendation, answer = judge(directory, parse_preference("tps>=0.95"))
    assert recommendation.ending is Ending.STAY
    assert (
        answer.headline == "Stay with glibc: nothing is shown to be better under these conditions"
    )
    assert answer.reason.startswith(
        "jemalloc is shown to be better, but it is shown to break tps>=0.95."
    )
    assert judge(directory)[0].ending is Ending.CHOICE


def test_the_command_keeps_what_was_preferred(make: Make) -> None:
    sql = (*mark_current(6), scatter_throughput(0.06))
    margin = "INSERT OR REPLACE INTO campaign VALUES ('margin', '0.02')"
    directory = make("kept", blocks=24, sql=(*sql, margin))
    _, answer = judge(directory, parse_preference("speed"))
    assert answer.command.endswith("--prefer speed --margin 2%")


def test_what_has_no_interval_is_named(make: Make) -> None:
    """One block of a design that the budget ended has no interval."""
    counts = json.dumps({"solo": 6, "duet": 7})
    sql = (
        *mark_current(6),
        f"UPDATE campaign SET value = '{counts}' WHERE key = 'planned_blocks'",
        "INSERT OR REPLACE INTO campaign VALUES ('ending', 'budget')",
        MARGIN,
    )
    directory = make("short", blocks=6, sql=sql, design="both")
    recommendation, answer = judge(directory)
    assert recommendation.ending is Ending.NOT_SETTLED, answer
    assert "There is no interval yet for CPU per transaction." in answer.reason
    plan_extension(directory, read_minutes(answer.command) * 60.0)


def test_to_stay_says_what_more_time_would_settle(make: Make) -> None:
    """The variants are alike, and their peaks scatter by some per cent."""
    alike = (
        "UPDATE trial SET rss_peak = 300000000 * (1 + 0.02 * ((trial * 7 % 5) - 2) / 2.0)",
        scatter_throughput(0.02),
    )
    directory = make("alike", blocks=6, sql=(*mark_current(6), MARGIN, *alike))
    recommendation, answer = judge(directory)
    assert recommendation.ending is Ending.STAY
    assert "Whether it is better by more than 1 % is open for" in answer.reason
    assert answer.command


def test_a_dry_run_of_an_extension_tells_of_the_extension(make: Make) -> None:
    extension = plan_extension(make("six", blocks=6, sql=mark_current(6)), 27.0)
    solo = BlockEstimate(blocks=6, trials=4, seconds=60.0, on_purpose=30.0)
    plan = DurationEstimate(ways={"solo": solo})
    assert describe_time(plan, extension).splitlines()[0] == "trials:  12 (3 solo blocks of 4)"
    assert describe_time(plan, None).startswith("trials:  24 (6 solo blocks of 4)")


def test_a_campaign_of_several_hosts_is_not_extended_here(make: Make) -> None:
    hosts = (
        "INSERT INTO host VALUES ('h1', 'k1', '{}')",
        "INSERT INTO placement (design, block, attempt, host) VALUES ('solo', 1, 0, 'h1')",
    )
    directory = make(
        "hosts", blocks=6, sql=(*mark_current(6), MARGIN, scatter_throughput(0.03), *hosts)
    )
    with pytest.raises(UsageError, match="hosts of a Ray cluster"):
        plan_extension(directory, 600.0)
    assert re.search(r"--blocks \d+ .* --ray HOST:PORT$", judge(directory)[1].command)


def test_the_pairs_that_were_played_are_told(make: Make) -> None:
    campaign = load_campaign(make("duet", blocks=3, design="duet"))
    text = "\n".join(_describe_pairs(campaign))
    assert text == "Played: 2 pairs of slices of each workload beside each variant in a block."
    fewer = (
        "DELETE FROM slice WHERE slice > 1 AND trial IN (SELECT trial FROM trial WHERE block = 2)",
    )
    campaign = load_campaign(make("fewer", blocks=3, design="duet", sql=fewer))
    assert "Played: 1 to 2 pairs" in "\n".join(_describe_pairs(campaign))
    facts = campaign.facts.duet
    assert "Planned by the pilot's findings" in "\n".join(_describe_duet(facts, is_of_hosts=False))
    faulty = replace(facts, scatter={}, components={})
    assert "The pilot had faults" in "\n".join(_describe_duet(faulty, is_of_hosts=False))
    assert "without a pilot" in "\n".join(_describe_duet(faulty, is_of_hosts=True))


def test_steal_in_the_slices_is_told(make: Make) -> None:
    stolen = ("UPDATE slice SET steal = CASE WHEN slice = 0 THEN 0.2 ELSE 0.0 END",)
    campaign = load_campaign(make("stolen", blocks=3, design="duet", sql=stolen))
    assert _describe_steal(campaign.slice) == [
        "Steal: the hypervisor took 5.0 % of the CPUs' time during the slices; 25.0 % of them lost "
        "more than 5.0 %."
    ]
    # Campaigns of older versions have not measured it.
    assert _describe_steal(load_campaign(make("older", blocks=3, design="duet")).slice) == []


def test_the_tails_of_the_answer_are_those_of_the_highest_level(make: Make) -> None:
    slower = (
        "UPDATE step SET p99 = p99 * 2 WHERE threads = 4 AND trial IN "
        "(SELECT trial FROM trial WHERE variant = 'tuned')",
        "UPDATE step SET p99 = p99 * 9 WHERE threads = 1",
    )
    campaign = load_campaign(make("slower", blocks=6, sql=(*mark_current(6), *slower)))
    tails = {t.variant: t for t in collect_tail_latencies(campaign)}
    assert tails.keys() == {"jemalloc", "tuned"}
    assert tails["jemalloc"].ratio == pytest.approx(1, abs=0.01)
    assert tails["tuned"].ratio == pytest.approx(2, abs=0.02)
    assert collect_tail_latencies(load_campaign(make("duet", blocks=3, design="duet"))) == []


def test_only_what_borrows_is_said_to_borrow() -> None:
    """Throughput has too little error, beside a duet, for a mean of others' variances."""
    both = _describe_moderation(
        declare_shares(list_judged(["solo", "duet"]), variants=10, workloads=1)
    )
    assert both.startswith(
        "Variances of peak RSS, server CPU per transaction in the duet and all bounds are moderated"
    )
    alone = _describe_moderation(declare_shares(list_judged(["solo"]), variants=3, workloads=1))
    assert "throughput" in alone
    many = _describe_moderation(
        declare_shares(list_judged(["solo", "duet"]), variants=100, workloads=1)
    )
    assert many == ""


def test_a_figure_of_several_variants_is_named_once(make: Make) -> None:
    _, answer = judge(make("first", blocks=1, sql=(*mark_current(1), MARGIN)))
    assert "There is no interval yet for throughput and peak RSS." in answer.reason
