"""Throughput in turns: from each server's turns to one logarithm a block."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from example_ratios import make_metric

from dballoc.experiment.designs import Design
from dballoc.questions.compare.baseline_comparison import compare_with_baseline, list_metrics
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.measures import THROUGHPUT
from dballoc.questions.compare.values import compute_turn_logs

Make = Callable[..., Path]

# Of each server's turns: half of their seconds, and so of their transactions, in the last.
HALF = "UPDATE turn SET seconds = seconds / 2, transactions = transactions / 2 WHERE round = 2"
# One turn in which the machine stood still for most of the time.
LATE = "UPDATE turn SET seconds = 2.0, transactions = 900 WHERE trial = 3 AND round = 1"


def find_logs(directory: Path) -> dict[tuple[str, str], list[float]]:
    logs: dict[tuple[str, str], list[float]] = {}
    frame = compute_turn_logs(load_campaign(directory))
    for variant, role, log in frame.select("variant", "role", "log").rows():
        logs.setdefault((variant, role), []).append(log)
    return logs


def test_a_variant_is_relative_to_the_mean_of_the_baselines_servers(make: Make) -> None:
    directory = make("a", design="turns", blocks=2, threads=[4])
    logs = find_logs(directory)
    # glibc's two servers end 100 and 104 transactions in a turn, jemalloc 110.
    mean = (math.log(100) + math.log(104)) / 2
    assert logs[("jemalloc", "V")] == pytest.approx([math.log(110) - mean] * 2)
    assert logs[("glibc", "A2")] == pytest.approx([math.log(1.04)] * 2)


def test_long_and_short_turns_weigh_by_their_time(make: Make) -> None:
    plain = find_logs(make("a", design="turns", blocks=2, threads=[4]))
    assert find_logs(make("b", design="turns", blocks=2, threads=[4], sql=(HALF,))) == {
        key: pytest.approx(logs) for key, logs in plain.items()
    }


def test_a_round_with_a_late_turn_counts_for_nobody(make: Make) -> None:
    plain = find_logs(make("a", design="turns", blocks=2, threads=[4]))
    assert find_logs(make("b", design="turns", blocks=2, threads=[4], sql=(LATE,))) == {
        key: pytest.approx(logs) for key, logs in plain.items()
    }


def test_without_the_baselines_first_server_there_is_no_ratio(make: Make) -> None:
    failed = "UPDATE trial SET outcome = 'fault', fault = 'died' WHERE role = 'A1' AND block = 1"
    logs = find_logs(make("a", design="turns", blocks=2, threads=[4], sql=(failed,)))
    assert {key: len(each) for key, each in logs.items()} == {
        ("glibc", "A2"): 1,
        ("jemalloc", "V"): 1,
        ("tuned", "V"): 1,
    }


def test_throughput_is_judged_in_turns_where_there_are_any(make: Make) -> None:
    [metric] = list_metrics(load_campaign(make("a", design="turns", blocks=2)))
    assert (metric.measure, metric.design, metric.question) == (
        THROUGHPUT,
        Design.TURNS,
        "speed",
    )
    solo = [m for m in list_metrics(load_campaign(make("b"))) if m.measure == THROUGHPUT]
    assert [m.design for m in solo] == [Design.SOLO]
    assert solo[0].question == make_metric("tps:w").question


def test_turns_have_verdicts_and_a_report(make: Make) -> None:
    comparisons = compare_with_baseline(load_campaign(make("a", design="turns", blocks=6)))
    assert {c.variant for c in comparisons.family} == {"jemalloc", "tuned"}
    assert all(c.ratio and c.ratio.interval and c.ratio.bounds for c in comparisons.family)
