"""Throughput against CPUs: which variants make a line, and what is drawn."""

from collections.abc import Callable
from pathlib import Path

import pytest
from example_results import SIZES
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.experiment.model import Experiment
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]


def of_cpus(template: str, counts: list[int], **keys: object) -> list[dict[str, object]]:
    return [{"name": template.format(n), "cpu": {"count": n}, **keys} for n in counts]


def lines(experiment: Experiment) -> dict[str, set[str]]:
    result: dict[str, set[str]] = {}
    for variant, line in level_curves.name_lines(experiment).items():
        result.setdefault(line, set()).add(variant)
    return result


def test_a_line_is_what_differs_in_cpus_alone(experiment) -> None:
    model = experiment(
        baseline="glibc_4cpu",
        variant=[
            *of_cpus("glibc_{}cpu", [4, 16, 1], stands_for="glibc 2.13"),
            *of_cpus("jemalloc-{}", [4, 16], allocator="jemalloc"),
            *of_cpus("x{}", [1, 16], allocator="jemalloc", thp="never"),
            *of_cpus("alone-{}", [8], allocator="scudo"),
            {"name": "everywhere"},
        ],
    )
    assert lines(model) == {
        "glibc": {"glibc_4cpu", "glibc_16cpu", "glibc_1cpu"},
        "jemalloc": {"jemalloc-4", "jemalloc-16"},
        "x": {"x1", "x16"},
        "alone-8": {"alone-8"},
    }
    assert list(level_curves.group_by_cpus(model)) == [1, 4, 8, 16]


@pytest.mark.parametrize(
    "variants",
    [
        [{"name": "glibc"}, {"name": "jemalloc"}],
        of_cpus("glibc_{}", [4]),
        [{"name": "glibc", "cpu": {"server": "0", "client": "1"}}],
    ],
)
def test_without_several_numbers_there_is_nothing_to_draw(experiment, variants: list) -> None:
    model = experiment(baseline=variants[0]["name"], variant=variants)
    assert level_curves.group_by_cpus(model) == {}


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True),
        st.tuples(st.sampled_from(["glibc", "jemalloc"]), st.integers(min_value=1, max_value=64)),
        min_size=1,
        max_size=5,
    )
)
def test_no_two_lines_have_one_name(experiment, variants: dict[str, tuple[str, int]]) -> None:
    table = [
        {"name": name, "allocator": allocator, "cpu": {"count": count}}
        for name, (allocator, count) in variants.items()
    ]
    model = experiment(baseline=table[0]["name"], variant=table)
    allocators = {name: allocator for name, (allocator, _) in variants.items()}
    for members in lines(model).values():
        assert len({allocators[name] for name in members}) == 1
    assert set(level_curves.name_lines(model)) == set(variants)


def test_what_is_drawn(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """glibc peaks on 4 CPUs with four clients, and collapses with eight."""
    variants = of_cpus("glibc_{}cpu", [1, 4]) + of_cpus("je_{}cpu", [1, 4], allocator="jemalloc")
    for variant in variants:
        monkeypatch.setitem(SIZES, variant["name"], 2**27)
    path = make(
        "cpus",
        blocks=2,
        threads=[1, 4, 8],
        baseline="glibc_1cpu",
        variant=variants,
        sql=(
            "UPDATE step SET tps = threads * 100 WHERE kind = 'level'",
            "UPDATE step SET tps = 150 WHERE kind = 'level' AND threads = 8 AND trial IN "
            "(SELECT trial FROM trial WHERE variant = 'glibc_4cpu')",
        ),
    )
    campaign = load_campaign(path)
    columns = ["variant", "cpus", "threads", "mean"]
    best = level_curves.average_throughput(campaign, level_curves.BEST)
    assert best.select(columns).rows() == [
        ("glibc", 1, 8, 800.0),
        ("glibc", 4, 4, 400.0),
        ("je", 1, 8, 800.0),
        ("je", 4, 8, 800.0),
    ]
    highest = level_curves.average_throughput(campaign, 8)
    assert [r for r in highest.select(columns).rows() if r[0] == "glibc"] == [
        ("glibc", 1, 8, 800.0),
        ("glibc", 4, 8, 150.0),
    ]
    [section] = [s for s in gather_report(campaign).sections if s.key == "levels"]
    keys = [figure.key for figure in section.figures]
    assert keys[:4] == [
        "cpus-best-oltp_read_only",
        "cpus-highest-oltp_read_only",
        "tps-1-cpus-oltp_read_only",
        "tps-4-cpus-oltp_read_only",
    ]
    # All variants in one picture would be a line for each of them.
    assert "tps-oltp_read_only" not in keys
    drawn = section.figures[0].chart
    assert drawn["layer"][0]["encoding"]["x"]["title"] == "CPUs (log scale)"
    [points] = drawn["datasets"].values()
    assert {row["variant"] for row in points} == {"glibc", "je"}
