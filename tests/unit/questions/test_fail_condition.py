"""Conditions on ratios: how they are written, and when an interval fulfils them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import (
    check_condition,
    parse_condition,
)
from dballoc.questions.compare.measures import CONDITIONS


@pytest.mark.parametrize(
    ("text", "measure", "operator", "bound", "within"),
    [
        ("rss > 1.05", "rss", ">", 1.05, ()),
        ("rss>1.05", "rss", ">", 1.05, ()),
        ("  p999 <= .9 ", "p999", "<=", 0.9, ()),
        ("jemalloc:tps < 0.99", "tps", "<", 0.99, ("jemalloc",)),
        (
            "je-5.3+x@y=1:oltp_read_only:p99>=1",
            "p99",
            ">=",
            1.0,
            ("je-5.3+x@y=1", "oltp_read_only"),
        ),
        ("jemalloc : cpu > 1.02", "cpu", ">", 1.02, ("jemalloc",)),
    ],
)
def test_parse(
    text: str, measure: str, operator: str, bound: float, within: tuple[str, ...]
) -> None:
    found = parse_condition(text, "--fail-if")
    assert (found.measure, found.operator, found.bound, found.within) == (
        measure,
        operator,
        bound,
        within,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rss",
        "rss = 1",
        "rss == 1",
        "rss > x",
        "rss > 5%",
        "> 1.05",
        "rss > -1",
        "rss > 1.05 or tps < 1",
        "rss >> 1",
    ],
)
def test_what_is_no_condition_is_one_line(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"^--fail-if: .* is not a condition; write it like"
    ) as caught:
        parse_condition(text, "--fail-if")
    assert "\n" not in str(caught.value)


def test_an_unknown_measure_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no measure 'rsx' in 'rsx > 1'; there are tps, qps, p50"):
        parse_condition("rsx > 1", "--fail-if")


@pytest.mark.parametrize(
    ("text", "low", "high", "holds"),
    [
        ("rss > 1.05", 1.06, 1.2, True),
        ("rss > 1.05", 1.05, 1.2, None),
        ("rss >= 1.05", 1.05, 1.2, True),
        ("rss > 1.05", 1.0, 1.05, False),
        ("rss > 1.05", 0.0, math.inf, None),
        ("tps < 0.99", 0.9, 0.98, True),
        ("tps < 0.99", 0.9, 1.0, None),
        ("tps < 0.99", 0.99, 1.0, False),
        ("p99 <= 1.05", 1.06, 1.2, False),
        ("p99 <= 1.05", 0.9, 1.05, True),
    ],
)
def test_an_interval_fulfils_it_wholly_or_not_at_all_or_lies_across(
    text: str, low: float, high: float, holds: bool | None
) -> None:
    assert parse_condition(text, "x").holds(low, high) is holds


@given(st.sampled_from(["<", "<=", ">", ">="]), *[st.floats(0.1, 10) for _ in range(3)])
def test_shown_means_true_of_every_value_within(
    operator: str, bound: float, one: float, other: float
) -> None:
    condition = parse_condition(f"rss {operator} {bound:.3f}", "x")
    low, high = sorted((one, other))
    middle = (low + high) / 2
    match condition.holds(low, high):
        case True:
            assert condition.holds_of(middle)
        case False:
            assert not condition.holds_of(middle)


def test_a_qualification_must_name_something() -> None:
    with pytest.raises(
        UsageError,
        match=r"no variant or workload 'hoard' in 'hoard:rss > 1'; there are glibc, jemalloc, oltp",
    ):
        check_condition(
            parse_condition("hoard:rss > 1", "x"), ["glibc", "jemalloc"], ["oltp"], "--fail-if"
        )
    with pytest.raises(UsageError, match="rss belongs to all workloads together, not to oltp"):
        check_condition(parse_condition("oltp:rss > 1", "x"), ["glibc"], ["oltp"], "--fail-if")
    check_condition(parse_condition("glibc:oltp:tps > 1", "x"), ["glibc"], ["oltp"], "--fail-if")


def test_whom_it_concerns() -> None:
    assert parse_condition("rss > 1", "x").concerns("jemalloc", None)
    assert parse_condition("jemalloc:tps > 1", "x").concerns("jemalloc", "oltp")
    assert not parse_condition("jemalloc:tps > 1", "x").concerns("glibc", "oltp")
    assert not parse_condition("jemalloc:reads:tps > 1", "x").concerns("jemalloc", "oltp")
    assert {m.better for m in CONDITIONS.values()} == {"higher", "lower"}
