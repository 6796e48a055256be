"""The mean over many workloads and its outliers: from the posts' own figures exactly what their
author says, and beside a campaign's own.
"""

import math
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc import catalogue
from dballoc.cli.shared import published_posts
from dballoc.intake.import_results import import_results
from dballoc.questions.campaign.figures.workload_means import (
    compute_interval_over_workloads,
    compute_workload_ratios,
    find_outliers,
)
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.published import post_figures
from dballoc.questions.published.post_ratios import compute_post_ratios
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]

HOT, READ_ONLY = "hot-points_range=100", "read-only_range=10000"

# By post, its baseline and our variants: the change that its author states in per cent, and the
# outliers that he names. Of his runs with MALLOC_ARENA_MAX and of jemalloc's builds he states no
# mean; of the former he names no outlier, though hot-points lies as far off there.
STATED = [
    ("smalldatum-2025-innodb", "glibc", "jemalloc", 2.5, []),
    ("smalldatum-2025-innodb", "glibc", "tcmalloc", 3.5, [READ_ONLY]),
    ("smalldatum-2025-myrocks", "glibc", "jemalloc", 5.1, []),
    ("smalldatum-2025-myrocks", "glibc", "tcmalloc", 3.0, [HOT]),
    ("myrocks-jemalloc-builds", "jemalloc", "jemalloc-build", None, []),
    ("myrocks-jemalloc-builds", "jemalloc", "jemalloc-build-no-cache-dump", None, [HOT]),
]


@pytest.mark.parametrize(("name", "baseline", "variant", "percent", "outliers"), STATED)
def test_the_posts_figures_give_what_their_author_says(
    name: str, baseline: str, variant: str, percent: float | None, outliers: list[str]
) -> None:
    post = post_figures.parse_published(name, *catalogue.published()[name])
    ratios = compute_post_ratios(post, baseline)[variant]
    assert len(ratios.qps) == 32
    assert ratios.mean.estimate == statistics.fmean(ratios.qps.values())
    if percent is not None:
        assert round((ratios.mean.estimate - 1) * 100, 1) == percent
    assert ratios.outliers == outliers


def test_the_post_explains_its_outliers_by_cpu_and_switches() -> None:
    """He writes of both that cpu/o and cs/o are much larger for the slower malloc."""
    for name, outlier in (("innodb", READ_ONLY), ("myrocks", HOT)):
        name = f"smalldatum-2025-{name}"
        ratios = compute_post_ratios(
            post_figures.parse_published(name, *catalogue.published()[name]), "glibc"
        )
        fast, slow = sorted(ratios.values(), key=lambda of: -of.qps[outlier])
        assert slow.cpu[outlier] > 1.05 * fast.cpu[outlier]
        assert slow.switches[outlier] > 1.15 * fast.switches[outlier]


def test_another_baseline_than_the_posts_has_nothing_beside_it() -> None:
    name = "smalldatum-2025-innodb"
    post = post_figures.parse_published(name, *catalogue.published()[name])
    assert compute_post_ratios(post, "jemalloc") == {}


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """The ratios of the InnoDB post as its author could have them: glibc is 1."""
    name = "smalldatum-2025-innodb"
    post = post_figures.parse_published(name, *catalogue.published()[name])
    cells = [c for c in post.tables[0].cells if c.variant]
    lines = [f"{row},256,glibc,1" for row in dict.fromkeys(c.row for c in cells)]
    lines += [f"{c.row},256,{c.variant},{c.value}" for c in cells]
    (tmp_path / "figures.csv").write_text(
        "\n".join(["workload,threads,variant,tps", *lines]) + "\n"
    )
    import_results([tmp_path / "figures.csv"], tmp_path / "out", published=name)
    return tmp_path / "out"


def test_the_posts_figures_imported_give_the_authors_closing_line(imported: Path) -> None:
    post = published_posts.find(imported, None, False)
    report = gather_report(load_campaign(imported), published=post)
    glance = next(s for s in report.sections if s.key == "glance")
    assert glance.text[:4] == [
        "QPS over 32 workloads with 256 clients, mean of the ratios to glibc: "
        "tcmalloc +3.5 % [+1.1, +5.9] (the post: +3.5 %); "
        "jemalloc +2.5 % [+1.3, +3.8] (the post: +2.5 %).",
        "The 95 % intervals are over workloads: how far these disagree. Nothing was measured "
        "twice, so how far the means may differ in another run is not known.",
        "Outliers: read-only_range=10000 with tcmalloc (1.280).",
        "Outliers in the post's figures: read-only_range=10000 with tcmalloc (1.280).",
    ]
    assert report.screen[0].text == [" ".join(glance.text[:3])]
    tables = {t.title: t.rows for t in glance.tables}
    assert tables["QPS over all workloads"][0] == [
        "tcmalloc", "32", "1.035", "1.035 [1.011, 1.059]", "1.035 [1.011, 1.059]",
    ]  # fmt: skip
    # What the post has of the whole host, beside what was not imported.
    assert tables["Outliers"] == [
        [READ_ONLY, "tcmalloc", "here and the post", "1.280", "–", "–", "1.280", "0.832", "0.777"],
        [READ_ONLY, "jemalloc", "–", "1.090", "–", "–", "1.090", "0.908", "0.928"],
    ]


WORKLOADS = [f"oltp_{n}" for n in ("read_only", "point_select", "read_write", "write_only")]


@pytest.fixture
def campaign(make: Make) -> Campaign:
    """Ten workloads; jemalloc a tenth faster than glibc, and in one twice as fast. In the third
    block it is as fast as glibc.
    """
    post = post_figures.parse_published(
        "smalldatum-2025-innodb", *catalogue.published()["smalldatum-2025-innodb"]
    )
    rows = post.tables[0].rows[:9]
    of_jemalloc = "trial IN (SELECT trial FROM trial WHERE variant = 'jemalloc' AND block < 3)"
    path = make(
        "many",
        blocks=3,
        workloads=["load", *rows],
        threads=[81],
        design="solo",
        published="smalldatum-2025-innodb",
        sql=(
            "UPDATE step SET qps = 1000, tps = 1000, cpu = 1, window_events = 1000",
            f"UPDATE step SET qps = 1100 WHERE {of_jemalloc}",
            f"UPDATE step SET qps = 2000, cpu = 0.5 WHERE workload = '{HOT}' AND {of_jemalloc}",
        ),
    )
    return load_campaign(path)


def test_a_campaigns_interval_is_over_its_blocks(campaign: Campaign) -> None:
    ratios = compute_workload_ratios(campaign)["jemalloc"]
    # Filling the tables is no workload.
    assert len(ratios.qps) == 9
    means = [math.log((8 * 1.1 + 2) / 9)] * 2 + [0.0]
    assert ratios.mean.estimate == pytest.approx(math.exp(statistics.fmean(means)))
    error = statistics.stdev(means) / math.sqrt(3)
    assert ratios.mean.error == pytest.approx(error)
    assert ratios.outliers == [HOT]
    assert ratios.cpu[HOT] == pytest.approx(0.5 ** (2 / 3))
    assert compute_workload_ratios(campaign)["glibc"].mean.estimate == pytest.approx(1)


def test_the_report_sets_the_posts_figures_beside_a_campaigns(campaign: Campaign) -> None:
    report = gather_report(campaign)
    glance = next(s for s in report.sections if s.key == "glance")
    line, interval, outliers, of_post = glance.text[:4]
    assert line.startswith("QPS over 9 workloads with 81 clients, mean of the ratios to glibc: ")
    assert line.endswith("; tuned 0.0 % [0.0, 0.0]; glibc against itself 0.0 % [0.0, 0.0].")
    # Ours are nine of its 32.
    assert "(the post: +2.5 %, over its 32 workloads)" in line
    assert interval.startswith("The 95 % intervals are over 3 blocks: how far the means may")
    assert outliers == f"Outliers: {HOT} with jemalloc (1.587)."
    assert of_post == "Outliers in the post's figures: none."
    assert report.screen[0].text[0].startswith(line)
    means = next(t for t in glance.tables if t.title == "QPS over all workloads")
    assert [row[0] for row in means.rows] == ["jemalloc", "tuned", "glibc against itself"]
    assert means.faint == {2}


def test_few_workloads_have_no_mean(make: Make) -> None:
    report = gather_report(load_campaign(make("few", blocks=2, workloads=WORKLOADS)))
    assert "glance" not in {s.key for s in report.sections}
    assert report.screen == []


def test_a_workload_that_a_block_lacks_is_in_no_mean(make: Make) -> None:
    post = catalogue.published()["smalldatum-2025-innodb"]
    rows = post_figures.parse_published("x", *post).tables[0].rows[:10]
    path = make(
        "gap",
        blocks=2,
        workloads=rows,
        threads=[4],
        sql=(
            f"UPDATE step SET qps = 0, tps = 0 WHERE workload = '{HOT}' AND trial IN "
            "(SELECT trial FROM trial WHERE variant = 'jemalloc' AND block = 2)",
        ),
    )
    ratios = compute_workload_ratios(load_campaign(path))
    assert HOT not in ratios["jemalloc"].qps
    assert len(ratios["jemalloc"].qps) == 9
    assert HOT in ratios["tuned"].qps


ratio_lists = st.lists(st.floats(0.2, 5), min_size=2, max_size=40)


@given(ratio_lists)
def test_outliers_do_not_depend_on_who_is_the_baseline(ratios: list[float]) -> None:
    named = {str(i): ratio for i, ratio in enumerate(ratios)}
    inverse = {name: 1 / ratio for name, ratio in named.items()}
    logs = sorted(map(math.log, ratios))
    # A value that lies on a fence may fall to either side.
    if len(ratios) >= 4:
        first, _, third = statistics.quantiles(logs, n=4, method="inclusive")
        reach = 3 * max(third - first, 0.01)
        if any(min(abs(x - first + reach), abs(x - third - reach)) < 1e-9 for x in logs):
            return
    assert set(find_outliers(named)) == set(find_outliers(inverse))
    assert len(find_outliers(named)) <= len(ratios) // 2


def test_rounded_ratios_that_are_all_alike_have_no_outliers_by_rounding() -> None:
    ratios = {str(i): 1.0 for i in range(20)} | {"near": 1.02, "far": 1.05}
    assert find_outliers(ratios) == ["far"]
    assert find_outliers({"a": 1.0, "b": 1.0, "c": 9.0}) == []


def test_one_workload_has_no_interval() -> None:
    assert compute_interval_over_workloads([1.5]) is None
    assert compute_interval_over_workloads([0.01, 0.5]) == (
        0.0,
        pytest.approx(0.255 + 3.1128, 1e-3),
    )
