"""Two campaigns against each other: what is paired, which ratio is judged, and what closes
a gate.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from example_replays import build_replays, replay_experiment
from example_results import Make

from dballoc.cli.results_verbs import compare as verb
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import parse_condition
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.measures import CONDITIONS
from dballoc.questions.compare.verdict import Verdict
from dballoc.questions.diff import answer as said
from dballoc.questions.diff.figures import (
    CampaignDiff,
    RatioKind,
    compare_campaigns,
    judge_condition,
)

pytestmark = pytest.mark.long


def compared(first: Path, second: Path, asked: RatioKind | None = None) -> CampaignDiff:
    return compare_campaigns(load_campaign(first), load_campaign(second), asked)


def ratio(found: CampaignDiff, variant: str, measure: str) -> tuple[float | None, float | None]:
    """(relative, absolute)"""
    figure = next(
        f
        for f in [*found.figures, *found.moved]
        if (f.variant, f.metric.measure.condition) == (variant, measure)
    )
    return tuple(c and round(c.estimate, 3) for c in (figure.relative, figure.absolute))  # type: ignore[return-value]


# The machine became slower by a tenth, for everybody.
SLOWER_HOST = "UPDATE step SET tps = tps * 0.9, qps = qps * 0.9"
FATTER = "UPDATE trial SET rss_peak = rss_peak * 1.08 WHERE variant = 'jemalloc'"


def test_relative_figures_do_not_see_what_moved_everybody_and_absolute_ones_do(make: Make) -> None:
    found = compared(make("a"), make("b", sql=(SLOWER_HOST, FATTER)))
    assert found.judged == "relative"
    assert ratio(found, "jemalloc", "tps") == (1.0, 0.9)
    assert ratio(found, "glibc", "tps") == (None, 0.9)
    assert ratio(found, "jemalloc", "rss") == (1.08, 1.08)
    assert {f.variant for f in found.figures} == {"jemalloc", "tuned"}
    assert {f.variant for f in found.moved} == {"glibc"}
    verdicts = {(f.variant, f.metric.measure.condition): f.verdict for f in found.figures}
    assert verdicts["jemalloc", "rss"] is Verdict.HIGHER
    assert verdicts["tuned", "rss"] is not Verdict.HIGHER
    assert verdicts["jemalloc", "tps"] not in (Verdict.HIGHER, Verdict.LOWER)


def test_the_family_shares_the_error_and_the_rest_has_plain_intervals(make: Make) -> None:
    found = compared(make("a"), make("b"))
    assert found.confidence == pytest.approx(1 - 0.8**2 * 0.025 / 2)
    assert len(found.figures) > 5
    for figure in found.figures:
        assert figure.ratio
        assert figure.ratio.confidence == (found.confidence if figure.metric.question else 0.95)
    assert {f.metric.measure.condition for f in found.figures if f.metric.question} == {
        "tps",
        "rss",
    }


def test_another_baseline_leaves_the_absolute_figures(make: Make) -> None:
    found = compared(
        make("a"),
        make("b", sql=("UPDATE variant SET allocator_version = '2' WHERE name = 'glibc'",)),
    )
    assert found.judged == "absolute"
    assert "the baseline glibc is not the same in both (allocator: glibc 1 → glibc 2)" in found.why
    assert {f.variant for f in found.figures} == {"glibc", "jemalloc", "tuned"}
    assert not found.moved
    with pytest.raises(
        ValueError, match="the baseline is glibc in the first and jemalloc in the second"
    ):
        compared(make("c"), make("d", baseline="jemalloc"), "relative")


def test_what_changed_is_said_and_paired_all_the_same(make: Make) -> None:
    sql = (
        "UPDATE variant SET server = 'MariaDB 11.8.6'",
        "UPDATE variant SET thp = 'always' WHERE name = 'tuned'",
    )
    found = compared(make("a"), make("b", sql=sql)).pairing
    assert [(c.variants, c.text) for c in found.changes] == [
        (
            ("glibc", "jemalloc", "tuned"),
            "server: MariaDB 10.11.1 (10.11.1) innodb → MariaDB 11.8.6 (10.11.1) innodb",
        ),
        (("tuned",), "THP: none → always"),
    ]


def test_variants_workloads_and_levels_in_one_alone(make: Make) -> None:
    one = make("a", workloads=["oltp_read_only", "oltp_insert"], threads=[1, 4])
    other = make(
        "b",
        threads=[4, 8],
        variant=[{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
    )
    found = compared(one, other)
    assert found.pairing.unpaired == [
        "variant tuned: only in the first",
        "workload oltp_insert: only in the first",
    ]
    assert found.pairing.levels == {"oltp_read_only": 4}
    assert (
        "workloads: oltp_read_only, oltp_insert against oltp_read_only" in found.pairing.no_memory
    )
    conditions = {f.metric.measure.condition for f in found.figures}
    assert conditions == CONDITIONS.keys() - {"rss", "rss_idle"}
    assert conditions >= {"tps", "qps", "p50", "p95", "p99", "p999", "written", "cpu"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"data": {"tables": 8, "rows": 5}}, "rows: 100000 against 5"),
        ({"load": {"random": "pareto"}}, "random numbers: uniform against pareto"),
        ({"load": {"options": {"range_size": "9"}}}, "load options: none against range_size=9"),
        ({"levels": "fresh"}, "levels: rising against fresh"),
        ({"limits": {"memory": "1G"}}, f"memory limit: none against {2**30}"),
    ],
)
def test_another_load_pairs_nothing(make: Make, changes: dict[str, Any], why: str) -> None:
    found = compared(make("a"), make("b", **changes))
    assert found.pairing.no_speed == [why]
    assert not found.figures
    outcome = judge_condition(found, parse_condition("rss > 1.05", "x"))
    assert outcome.failed(strict=False)
    assert outcome.problem == why


def test_what_is_wrong_with_a_trace_is_told_in_words_and_as_json(tmp_path: Path) -> None:
    whole = build_replays(tmp_path / "whole")
    holed = build_replays(tmp_path / "holed", dropped=500_000, ended_by="limit")
    sides = (said.Side(whole, load_campaign(whole)), said.Side(holed, load_campaign(holed)))
    found = compared(whole, holed)
    flaws = [
        "500,000 events are missing (33.33 %)",
        "the recording ended early, at its limit",
    ]
    assert [
        text for heading, text in said.describe_pairing(found, sides) if heading == "trace"
    ] == [f"that of the second: {'; '.join(flaws)}"]
    assert said.describe_comparison(found, sides, [], strict=False)["trace_flaws"] == [[], flaws]


def test_peaks_of_other_stretches_of_a_trace_are_not_compared(tmp_path: Path) -> None:
    def replays(name: str, **window: tuple[float, float]) -> Path:
        trace = replay_experiment().replay
        assert trace
        chosen = replay_experiment(replay=trace.model_dump(mode="json") | window)
        return build_replays(tmp_path / name, experiment=chosen, **window)

    first, second = replays("a", window=(0, 6)), replays("b", window=(1, 6.5))
    why = "stretch judged: 0 to 6 s against 1 to 6.5 s"
    assert why in compared(first, second).pairing.no_memory
    assert why not in compared(first, second).pairing.no_speed
    same = compared(first, replays("c", window=(0, 6))).pairing
    assert not any("stretch" in text for text in same.no_memory)
    whole = compared(replays("d"), second).pairing
    assert "stretch judged: all against 1 to 6.5 s" in whole.no_memory


def test_other_durations_leave_speed(make: Make) -> None:
    found = compared(make("a"), make("b", time={"warmup": "2s", "level": "9s", "idle": "2s"}))
    assert found.pairing.no_memory == ["level, s: 3.0 against 9.0"]
    assert not found.pairing.no_speed
    found = compared(make("c"), make("d", time={"warmup": "2s", "level": "3s", "idle": "9s"}))
    assert (found.pairing.no_memory, found.pairing.no_idle) == ([], ["idle 2 s against 9 s"])


def environment(**changes: Any) -> str:
    pairs = ", ".join(
        f"'$.{k}', {json.dumps(v)!r}" if isinstance(v, str) else f"'$.{k}', {v}"
        for k, v in changes.items()
    )
    return f"UPDATE campaign SET value = json_set(value, {pairs}) WHERE key = 'environment'"


def test_another_machine_needs_a_common_baseline(make: Make) -> None:
    bigger, other = (
        environment(cpus=64),
        "UPDATE variant SET allocator_version = '2' WHERE name = 'glibc'",
    )
    found = compared(make("a"), make("b", sql=(bigger,)))
    assert found.pairing.machine == ["cpus: 2 against 64"]
    assert not found.withheld
    found = compared(make("c"), make("d", sql=(bigger, other)))
    assert "cpus: 2 against 64" in found.withheld
    assert judge_condition(found, parse_condition("rss > 1.05", "x")).failed(strict=False)


def test_a_baseline_alone_is_compared_with_itself(make: Make) -> None:
    alone = {"variant": [{"name": "glibc"}]}
    found = compared(
        make("a", **alone), make("b", sql=("UPDATE trial SET rss_peak = rss_peak * 1.1",), **alone)
    )
    assert found.judged == "absolute"
    assert ratio(found, "glibc", "rss") == (None, 1.1)


@pytest.mark.parametrize(
    ("text", "failed", "strictly"),
    [
        ("rss > 1.05", True, True),
        ("jemalloc:rss > 1.05", True, True),
        ("tuned:rss > 1.05", False, False),
        ("rss > 1.08", False, True),
        ("tps < 0.97", False, False),
        # The baseline is judged by its absolute figures, when it is named.
        ("glibc:tps < 0.97", True, True),
        ("p99 > 1.2", False, False),
        ("cpu > 1.0", False, True),
    ],
)
def test_the_gate(make: Make, text: str, failed: bool, strictly: bool) -> None:
    outcome = judge_condition(
        compared(make("a"), make("b", sql=(SLOWER_HOST, FATTER))), parse_condition(text, "x")
    )
    assert (outcome.failed(strict=False), outcome.failed(strict=True)) == (failed, strictly)


def test_a_gate_that_cannot_judge_is_closed(make: Make) -> None:
    one, several = make("one", blocks=1), make("several")
    found = judge_condition(compared(one, several), parse_condition("rss > 1.05", "x"))
    assert found.failed(strict=False)
    assert {f.problem for f in found.findings} == {"one block has no interval"}
    found = judge_condition(
        compared(several, make("faults", faulty=("tuned",))), parse_condition("rss > 1.05", "x")
    )
    assert [(f.figure.variant, f.problem) for f in found.failures(strict=False)] == [
        ("tuned", "6 of 6 trials ended in a fault in the second")
    ]


def test_the_verb(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = make("a"), make("b", sql=(FATTER,))
    verb.compare(one, other, ["tps < 0.9"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "changed nothing in the variants' allocators, settings and servers" in printed
    assert "peak RSS, second ÷ first (better: lower)" in printed
    assert "fail if tps < 0.9: passed" in printed
    with pytest.raises(Failure, match=r"--fail-if 'rss > 1.05': jemalloc 1\.080 \[.*\]: shown$"):
        verb.compare(one, other, ["rss > 1.05"], as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["failed"]
    assert found["paired"]["variants"] == ["glibc", "jemalloc", "tuned"]
    peak = next(f for f in found["figures"] if (f["variant"], f["measure"]) == ("jemalloc", "rss"))
    assert peak["verdict"] == "higher"
    assert peak["relative"]["low"] < 1.08 < peak["relative"]["high"]


def test_the_same_campaign_twice_is_said(make: Make) -> None:
    one = make("a")
    sides = said.Side(one, load_campaign(one)), said.Side(one, load_campaign(one))
    assert ("note", "both are the same campaign: every ratio is 1") in said.describe_pairing(
        compared(one, one), sides
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fail_if": ["rss"]}, "is not a condition"),
        ({"fail_if": ["hoard:rss > 1"]}, "no variant or workload 'hoard'"),
        ({"strict": True}, "--strict only goes with --fail-if"),
    ],
)
def test_a_bad_question_is_one_line(make: Make, how: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        verb.compare(make("a"), make("b"), **how)


def test_a_directory_that_is_none(make: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a results directory"):
        verb.compare(make("a"), tmp_path)
    with pytest.raises(UsageError, match="no trial is finished yet"):
        verb.compare(make("b"), make("c", blocks=0))


def test_the_duets_cpu_per_transaction_is_a_primary_figure_and_relative_alone(make: Make) -> None:
    dearer = "UPDATE slice SET cpu = cpu * 1.05 WHERE trial IN (SELECT trial FROM trial WHERE variant = 'jemalloc')"
    one, other = make("a", design="both"), make("b", design="both", sql=(dearer,))
    found = compared(one, other)
    assert not found.pairing.no_duet
    assert ratio(found, "jemalloc", "cpu") == (1.05, None)
    assert found.confidence == pytest.approx(1 - 0.8**2 * 0.005 / 2)
    assert judge_condition(found, parse_condition("cpu > 1.02", "x")).failed(strict=False)
    assert not judge_condition(found, parse_condition("tuned:cpu > 1.02", "x")).failed(strict=True)
    alone = compared(make("c", design="duet"), make("d", design="duet", sql=(dearer,)))
    assert {f.metric.measure.condition for f in alone.figures} == {"cpu"}
    assert alone.pairing.no_speed == ["no solo design in the first and the second"]
    mixed = compared(one, make("e"))
    assert mixed.pairing.no_duet == ["no duet design in the second"]
    assert not next(f for f in mixed.figures if f.metric.measure.condition == "cpu").metric.question


def test_duets_of_other_widths_are_not_compared(make: Make) -> None:
    wider = "UPDATE campaign SET value = json_set(value, '$.threads', 8) WHERE key = 'duet'"
    found = compared(make("a", design="both"), make("b", design="both", sql=(wider,)))
    assert found.pairing.no_duet == ["clients a side: 4 against 8"]
