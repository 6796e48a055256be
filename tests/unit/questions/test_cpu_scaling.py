"""Throughput against CPUs: which variants make a line, and what is drawn."""

from collections.abc import Callable
from pathlib import Path

import pytest
from example_results import SIZES
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.document.model import Answer
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer.answer_by_cpus import CpuAnswer, combine_answers
from dballoc.questions.campaign.figures import over_cpus
from dballoc.questions.campaign.sections.over_cpus import make_cpus_section
from dballoc.questions.compare.baseline_comparison import declare_procedures
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.measures import PEAK
from dballoc.questions.diff.figures import compare_campaigns
from dballoc.questions.hosts.host_pool import pool_hosts
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]


def of_cpus(template: str, counts: list[int], **keys: object) -> list[dict[str, object]]:
    return [{"name": template.format(n), "cpu": {"count": n}, **keys} for n in counts]


def lines(experiment: Experiment) -> dict[str, set[str]]:
    result: dict[str, set[str]] = {}
    for variant, line in over_cpus.name_lines(experiment).items():
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
    assert list(over_cpus.group_by_cpus(model)) == [1, 4, 8, 16]


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
    assert over_cpus.group_by_cpus(model) == {}


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
    assert set(over_cpus.name_lines(model)) == set(variants)


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
    best = over_cpus.average_throughput(campaign, over_cpus.BEST)
    assert best.select(columns).rows() == [
        ("glibc", 1, 8, 800.0),
        ("glibc", 4, 4, 400.0),
        ("je", 1, 8, 800.0),
        ("je", 4, 8, 800.0),
    ]
    highest = over_cpus.average_throughput(campaign, 8)
    assert [r for r in highest.select(columns).rows() if r[0] == "glibc"] == [
        ("glibc", 1, 8, 800.0),
        ("glibc", 4, 8, 150.0),
    ]
    document = gather_report(campaign)
    sections = {section.key: section for section in document.sections}
    grown = sections["cpus"]
    assert [figure.key for figure in grown.figures] == [
        "cpus-best-oltp_read_only",
        "cpus-highest-oltp_read_only",
    ]
    drawn = grown.figures[0].chart
    assert drawn["layer"][0]["encoding"]["x"]["title"] == "CPUs (log scale)"
    [points] = drawn["datasets"].values()
    assert {row["variant"] for row in points} == {"glibc", "je"}
    [table] = grown.tables
    assert table.rows == [
        ["glibc", "1", "800", "8", "–", "–", "none"],
        ["glibc", "4", "400", "4", "0.500 [0.500, 0.500]", "0.188 [0.188, 0.188]", "at 8: 38 %"],
        ["je", "1", "800", "8", "–", "–", "none"],
        ["je", "4", "800", "8", "1.000 [1.000, 1.000]", "1.000 [1.000, 1.000]", "none"],
    ]  # fmt: skip
    # All variants in one picture would be a line for each of them.
    keys = [figure.key for figure in document.figures]
    assert "tps-oltp_read_only-1-cpus" in keys
    assert "tps-oltp_read_only" not in keys
    assert len(set(keys)) == len(keys)


def test_each_is_compared_with_the_baseline_on_its_number(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jemalloc needs less memory than glibc on one CPU, and more on four: compared with glibc on
    one CPU it would need less on both.
    """
    sizes = {"glibc_1cpu": 300, "je_1cpu": 200, "glibc_4cpu": 100, "je_4cpu": 150}
    for name, size in sizes.items():
        monkeypatch.setitem(SIZES, name, size * 2**20)
    variants = of_cpus("glibc_{}cpu", [1, 4]) + of_cpus("je_{}cpu", [1, 4], allocator="jemalloc")
    campaign = load_campaign(
        make("cpus", blocks=8, threads=[4], baseline="glibc_1cpu", variant=variants)
    )
    document = gather_report(campaign)
    on_one, on_four = document.data["by_cpus"]
    assert (on_one["cpus"], on_one["baseline"], on_one["subject"]) == (1, "glibc_1cpu", "je_1cpu")
    assert (on_four["cpus"], on_four["baseline"], on_four["recommended"]) == (
        4, "glibc_4cpu", "glibc_4cpu",
    )  # fmt: skip
    assert "recommended" not in document.data
    peaks = {
        figure["metric"]: figure["ratio"]
        for candidate in on_four["candidates"]
        for figure in candidate["figures"]
    }
    assert peaks[PEAK.name] == pytest.approx(1.5, rel=0.05)
    headline = document.answer.headline
    assert headline.startswith("On 1 CPU: ")
    assert "; on 4 CPUs: Stay with glibc_4cpu" in headline
    assert document.answer.table
    names = [row[0].partition("\n")[0] for row in document.answer.table.rows]
    assert names == ["je_1cpu", "glibc_1cpu", "je_4cpu", "glibc_4cpu"]
    assert document.answer.table.faint == [1, 3]
    comparisons = document.csv()["comparisons"]
    assert set(comparisons["baseline"]) == {"glibc_1cpu", "glibc_4cpu"}
    titles = [section.title for section in document.sections]
    assert {"Verdicts on 1 CPU", "Verdicts on 4 CPUs"} <= set(titles)


def test_all_numbers_share_the_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = of_cpus("glibc_{}cpu", [1, 4]) + of_cpus("je_{}cpu", [1, 4], allocator="jemalloc")
    for variant in variants:
        monkeypatch.setitem(SIZES, variant["name"], 2**27)
    campaign = load_campaign(
        make("cpus", blocks=4, threads=[4], baseline="glibc_1cpu", variant=variants)
    )
    [whole] = {p.family for p in declare_procedures(campaign).values()}
    parts = campaign.split_by_cpus()
    assert [part.names for part in parts] == [
        ["glibc_1cpu", "je_1cpu"], ["glibc_4cpu", "je_4cpu"],
    ]  # fmt: skip
    # Peak RSS and throughput of each of the two other variants.
    assert {p.family for part in parts for p in declare_procedures(part).values()} == {whole} == {4}


def test_a_number_without_a_baseline_is_compared_with_the_only_one(experiment) -> None:
    model = experiment(
        baseline="glibc_4cpu",
        variant=[*of_cpus("glibc_{}cpu", [4]), *of_cpus("je_{}cpu", [4, 8], allocator="jemalloc")],
    )
    assert [part.baseline for part in model.split_by_cpus()] == ["glibc_4cpu"]
    assert model.count_compared() == 2


def test_other_questions_say_that_there_are_several_baselines(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = of_cpus("glibc_{}cpu", [1, 4]) + of_cpus("je_{}cpu", [1, 4], allocator="jemalloc")
    for variant in variants:
        monkeypatch.setitem(SIZES, variant["name"], 2**27)
    keys = {"blocks": 4, "threads": [4], "baseline": "glibc_1cpu", "variant": variants}
    paths = [make(name, **keys) for name in ("a", "b")]
    campaigns = [load_campaign(path) for path in paths]
    diff = compare_campaigns(*campaigns)
    assert (diff.judged, diff.pairing.no_baseline) == (
        "absolute", "there are several numbers of CPUs, each with a baseline of its own",
    )  # fmt: skip
    # Both runs of each baseline are in its figures.
    assert all(figure.absolute for figure in diff.of(diff.metrics[-1]))
    with pytest.raises(UsageError, match="has several numbers of CPUs"):
        pool_hosts(paths, campaigns)


def test_where_clients_had_cpus_of_their_own_is_said(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = of_cpus("glibc_{}cpu", [1, 4])
    for variant in variants:
        monkeypatch.setitem(SIZES, variant["name"], 2**27)
    path = make(
        "cpus",
        blocks=2,
        threads=[4],
        baseline="glibc_1cpu",
        variant=variants,
        sql=(
            "UPDATE trial SET cpus = '0', client_cpus = '2' WHERE variant = 'glibc_1cpu'",
            "UPDATE trial SET cpus = '0-3', client_cpus = '0-3' WHERE variant = 'glibc_4cpu'",
        ),
    )
    section = make_cpus_section(load_campaign(path))
    assert section
    assert section.text == [
        "The clients had CPUs of their own where the server had 1, and were on the server's where "
        "it had 4: what they took there is missing from its growth."
    ]


def test_one_command_settles_all() -> None:
    def on(cpus: int, minutes: int | None) -> CpuAnswer:
        command = f"dballoc bench --out r --extend {minutes}m" if minutes else ""
        more = f" {minutes} more minutes would settle it:" if minutes else ""
        answer = Answer(headline="Use x", reason=f"It saves 5 %.{more}", command=command)
        return CpuAnswer(cpus=cpus, answer=answer, minutes=minutes)

    settled = combine_answers([on(4, None), on(16, None)])
    assert (settled.headline, settled.command) == ("On 4 CPUs: Use x; on 16 CPUs: Use x", "")
    assert settled.reason == "On 4 CPUs: It saves 5 %. On 16 CPUs: It saves 5 %."
    one = combine_answers([on(4, None), on(16, 9)])
    assert one.command.endswith("--extend 9m")
    assert one.reason.endswith("9 more minutes would settle it. That is:")
    two = combine_answers([on(4, 12), on(16, 9)])
    assert two.command.endswith("--extend 12m")
    assert two.reason.endswith("The longest of these does it for all:")
