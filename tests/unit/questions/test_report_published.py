"""A post's tables with ours beside them, of results that no server made."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from example_results import SIZES

from dballoc import catalogue
from dballoc.cli.shared import published_posts
from dballoc.experiment.post import PostCpus
from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.sections import scaled_down
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.published import figures, measured_figures, post_figures
from dballoc.questions.published.figures import ShapeAgreement, compare_published
from dballoc.questions.published.post_figures import Published
from dballoc.questions.published.sections import (
    collect_published_tables,
    describe_published_cpus,
    make_published_section,
)
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]

POINTS = ["hot-points_range=100", "point-query_range=100"]
SCALED = {"factor": 0.01, "rows": 50_000_000, "threads": [256], "level": "20m", "memory": "10G"}


def post(name: str) -> Published:
    return post_figures.parse_published(name, *catalogue.published()[name])


@pytest.fixture
def small(make: Make) -> Path:
    """Three blocks; jemalloc as fast as glibc, with three quarters of its memory."""
    variants = [
        {"name": "glibc", "stands_for": "glibc 2.35"},
        {"name": "jemalloc", "allocator": "jemalloc"},
        {"name": "tuned", "stands_for": "something else"},
    ]
    return make(
        "small",
        blocks=3,
        workloads=POINTS,
        threads=[81],
        published="smalldatum-2025-myrocks",
        scaled=SCALED,
        variant=variants,
        server={
            "stands_for": "Facebook's MySQL 8.0.32",
            "options": {"innodb_buffer_pool_size": "100M"},
        },
        sql=(
            "UPDATE trial SET rss_peak = rss_peak * 0.75 WHERE variant = 'jemalloc'",
            "UPDATE step SET qps = 1000 + trial % 3, tps = 1000 + trial % 3",
        ),
    )


def test_ours_stand_beside_the_posts_own_figures(small: Path) -> None:
    qps, memory, *_ = compare_published(load_campaign(small), post("smalldatum-2025-myrocks"))
    figure = qps.figures["hot-points_range=100", "jemalloc"]
    assert (figure.cell.value, figure.blocks) == (1.00, 3)
    assert figure.value == pytest.approx(1, abs=0.01)
    assert figure.low < figure.value < figure.high
    assert qps.figures["hot-points_range=100", "tcmalloc"].value is None
    assert qps.figures["insert_range=100", "jemalloc"].value is None
    rss = memory.figures["glibc", "peak RSS, GB"]
    assert rss.cell.value == 36.2
    assert rss.value == pytest.approx(160 * 2**20 / 2**30, rel=0.02)
    assert memory.figures["glibc", "peak RSS ÷ block cache"].value == pytest.approx(
        160 / 128, rel=0.02
    )


def test_the_shape_is_that_of_the_pairs_of_a_row(small: Path) -> None:
    qps, memory, *_ = compare_published(load_campaign(small), post("smalldatum-2025-myrocks"))
    # 1.00 in the post, 1.00 here; tcmalloc was not run.
    assert qps.shapes["hot-points_range=100"] is ShapeAgreement.AGREES
    # 1.04 in the post, 1.00 here.
    assert qps.shapes["point-query_range=100"] is ShapeAgreement.DIFFERS
    assert "insert_range=100" not in qps.shapes
    assert memory.shapes["peak RSS, GB"] is ShapeAgreement.AGREES
    pair = next(
        p
        for p in memory.pairs
        if (p.group, p.first, p.second) == ("peak RSS, GB", "jemalloc", "glibc")
    )
    assert pair.published == pytest.approx(12.2 / 36.2)
    assert pair.measured_ratio is not None
    assert pair.measured_ratio.high < 1


def test_what_is_not_measured_here_has_the_posts_figure_alone(small: Path) -> None:
    post_tables = post("smalldatum-2025-myrocks")
    tables = {t.title: t for t in make_published_section(load_campaign(small), post_tables).tables}
    title = "CPU of the whole host per query, µs"
    rows = {row[0]: row for row in tables[title].rows}
    # Warm-ups of the post are no workloads here, and a scan's thousand rows no operation.
    for name in ("point-query.pre_range=100", "points-covered-si.warm_range=100", "scan_range=100"):
        assert rows[name][1] == "–"
        assert rows[name][3::2] == ["–", "–", "–"]
        assert float(rows[name][2].replace(",", "")) > 100


def test_a_query_has_its_share_of_a_transaction() -> None:
    levels = pl.DataFrame(
        {
            "tps": [100.0],
            "qps": [1600.0],
            "host_cpu_per_operation": [320.0],
            "context_switches_per_operation": pl.Series([None], dtype=pl.Float64),
        }
    )
    [row] = measured_figures._divide_by_queries(levels).to_dicts()
    assert row["host_cpu_per_query"] == pytest.approx(20)
    # Nothing is made of what was not measured.
    assert row["context_switches_per_query"] is None


def test_one_block_decides_nothing(make: Make) -> None:
    path = make(
        "one", blocks=1, workloads=POINTS, threads=[256], published="smalldatum-2025-myrocks"
    )
    for table in compare_published(load_campaign(path), post("smalldatum-2025-myrocks")):
        # Nothing here stands for the reads.
        expected = set() if table.table.name == "reads" else {ShapeAgreement.UNDECIDED}
        assert set(table.shapes.values()) == expected


def test_the_section_says_where_it_differs_and_why(small: Path) -> None:
    found = make_published_section(load_campaign(small), post("smalldatum-2025-myrocks"))
    text = " ".join(found.text)
    assert (
        "Of 99 rows, 9 were measured here: the shape agrees in 6, differs in 3 and is open in 0."
        in text
    )
    assert "It differs in point-query_range=100 (Relative QPS)" in text
    assert "48 CPUs there, 2 here" in text
    assert "Scaled to 0.01" in text
    assert "MariaDB 10.11.1 stands for Facebook's MySQL 8.0.32." in text
    assert "here the clients run on it too" in text
    assert "3 blocks in random order" in text
    columns = list(found.tables[0].columns)
    assert columns == ["row", "shape", "tcmalloc: published", "ours", "jemalloc: published", "ours"]
    row = next(r for r in found.tables[0].rows if r[0] == "point-query_range=100")
    assert row[2:5] == ["1.04", "–", "1.04"]
    assert row[1] == "differs"
    assert found.tables[1].rows[-1][0] == "shape"


def test_cpus_are_those_of_the_hosts_that_ran_the_trials_and_not_the_drivers(make: Make) -> None:
    path = make(
        "hosts",
        design="solo",
        blocks=2,
        workloads=POINTS,
        threads=[256],
        published="smalldatum-2025-myrocks",
        sql=(
            """INSERT INTO host VALUES ('a', 'kernel a', '{"host": "a", "cpus": 64}')""",
            """INSERT INTO host VALUES ('b', 'kernel b', '{"host": "b", "cpus": 96}')""",
            "INSERT INTO placement (design, block, attempt, host) SELECT design, block, attempt, char(96 + block) FROM block",
            "INSERT OR REPLACE INTO campaign VALUES ('clients', 'apart')",
        ),
    )
    found = make_published_section(load_campaign(path), post("smalldatum-2025-myrocks"))
    text = " ".join(found.text)
    assert "48 CPUs there, 64 and 96 here (by host): more contention, and more arenas" in text
    assert "here the clients run on another host." in text


@pytest.mark.parametrize(
    ("stated", "here", "sentence"),
    [
        (None, [48, 48], ""),
        (None, [], ""),
        (None, [2, 2], "48 CPUs there, 2 here: less contention, and fewer arenas"),
        (
            None,
            [64, 2],
            "48 CPUs there, 2 and 64 here (by host): more or less contention, and more or fewer "
            "arenas",
        ),
        ({"cores": 48, "words": "48 cores"}, [64], ""),
        ({"cores": 48, "most_count": 96, "words": "48 cores"}, [96], ""),
        (
            {"cores": 48, "most_count": 96, "words": "48 cores"},
            [97],
            "48 cores there, 97 here: more contention, and more arenas",
        ),
        (
            {"server": 40, "most_client": 24, "words": "some"},
            [65],
            "some there, 65 here: more contention, and more arenas",
        ),
    ],
)
def test_only_surely_fewer_or_more_cpus_are_told(
    stated: dict[str, object] | None, here: list[int], sentence: str
) -> None:
    cpus = None if stated is None else PostCpus.model_validate(stated)
    more = " where their number depends on the CPUs."
    assert describe_published_cpus(48, cpus, here) == (sentence and sentence + more)


def test_scale_and_stand_ins_are_said_at_the_top(small: Path) -> None:
    campaign = load_campaign(small)
    notes = scaled_down.list_scaling_notes(campaign)
    assert notes == [
        "Scaled to 0.01 of small: 100,000 rows a table instead of 50,000,000, cache 128M instead of 10G, clients 81 instead of "
        "256 and levels of 3s instead of 20m. Its figures are not those of the full scale.",
        "Stand-ins for what cannot be had: MariaDB 10.11.1 for Facebook's MySQL 8.0.32, glibc 1 for glibc 2.35 and tuned 1 for "
        "something else.",
    ]
    content = gather_report(campaign)
    assert content.answer.notes[:2] == notes
    assert content.subtitle.startswith("scaled to 0.01 · ")
    assert (
        gather_report(campaign, published=post("smalldatum-2025-myrocks")).sections[0].key
        == "published"
    )


def test_levels_have_changes_and_collapses(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nt-heap", "segment-heap"):
        monkeypatch.setitem(SIZES, name, 2**27)
    threads = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    path = make(
        "mdev",
        blocks=2,
        workloads=["oltp_read_only"],
        threads=threads,
        levels="fresh",
        published="mdev-38369",
        baseline="nt-heap",
        variant=[{"name": "nt-heap"}, {"name": "segment-heap"}],
        sql=(
            "UPDATE step SET tps = 5000 WHERE kind = 'level'",
            "UPDATE step SET tps = 1000 WHERE kind = 'level' AND threads = 1024 AND trial IN "
            "(SELECT trial FROM trial WHERE variant = 'nt-heap')",
        ),
    )
    found = {b.table.name: b for b in compare_published(load_campaign(path), post("mdev-38369"))}[
        "oltp_read_only"
    ]
    falls = {f.column: f for f in found.falls}
    assert (falls["nt-heap"].published, falls["nt-heap"].measured_levels) == (
        (512, 1024),
        (512, 1024),
    )
    assert falls["segment-heap"].published is falls["segment-heap"].measured_levels is None
    assert [falls[c].shape for c in ("nt-heap", "segment-heap")] == [
        ShapeAgreement.AGREES,
        ShapeAgreement.AGREES,
    ]
    assert not falls["nt-heap, small blocks"].measured
    top = found.figures["1024", "segment-heap"]
    assert top.published_change == pytest.approx(4621.49 / 523.21)
    assert top.change is not None
    assert top.change.estimate == pytest.approx(5)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (None, None, True),
        (None, (1, 2), False),
        ((72, 144), None, False),
        ((72, 144), (72, 144), True),
        ((72, 144), (36, 72), True),
        ((72, 144), (144, 288), True),
        ((72, 144), (18, 36), False),
    ],
)
def test_a_collapse_elsewhere_is_another_one(
    first: tuple[int, int] | None, second: tuple[int, int] | None, same: bool
) -> None:
    assert figures._is_same_collapse(first, second) is same


@pytest.mark.parametrize(
    ("runs", "mean"),
    [
        ([3600], 3600),
        ([1, 4], 2),
        ([2**40, 2**42], 2**41),
        ([-1, 4], 1.5),
        ([0, 4], 2),
        ([None, 4], 4),
        ([None, None], None),
    ],
)
def test_the_baselines_two_runs_are_averaged_as_ratios_have_them(
    runs: list[int | None], mean: float | None
) -> None:
    frame = pl.DataFrame({"group": [1] * len(runs), "rss_peak": pl.Series(runs, dtype=pl.Int64)})
    [row] = frame.group_by("group").agg(measured_figures._average(["rss_peak"])).to_dicts()
    assert row["rss_peak"] == mean


def test_what_nothing_stands_for_is_said_at_the_top(make: Make) -> None:
    path = make(
        "percona",
        blocks=2,
        published="percona-2012",
        no_stand_in={"lockless": "it is in no package registry"},
    )
    sentence = "Nothing stands for lockless: it is in no package registry."
    campaign = load_campaign(path)
    assert sentence in gather_report(campaign).answer.notes
    [why] = [
        text
        for text in make_published_section(campaign, post("percona-2012")).text
        if text.startswith("Why it may differ")
    ]
    assert sentence in why


def test_glibc_after_its_drop_is_compared_at_that_level(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 8 CPUs its figure is that of 128 clients, not its best."""
    names = ["glibc_8cpu", "jemalloc_8cpu"]
    for name in names:
        monkeypatch.setitem(SIZES, name, 2**27)
    path = make(
        "vcpus",
        blocks=2,
        workloads=["oltp_read_only"],
        threads=[8, 128],
        published="percona-2013",
        baseline="glibc_8cpu",
        variant=[{"name": name, "cpu": {"count": 8}} for name in names],
        sql=(
            "UPDATE step SET tps = 5000 WHERE kind = 'level'",
            "UPDATE step SET tps = 3600 WHERE kind = 'level' AND threads = 128 AND trial IN "
            "(SELECT trial FROM trial WHERE variant = 'glibc_8cpu')",
        ),
    )
    tps, *_ = compare_published(load_campaign(path), post("percona-2013"))
    row = "oltp_read_only, 8 CPUs, 128 clients"
    assert tps.figures[row, "glibc"].value == 3600
    assert tps.figures[row, "jemalloc"].value == 5000
    assert tps.shapes == {row: ShapeAgreement.AGREES}


def test_the_tables_are_there_as_csv(small: Path) -> None:
    found = collect_published_tables(load_campaign(small), post("smalldatum-2025-myrocks"))
    assert set(found) == {"published", "published-shape"}
    assert found["published"].height == 32 * 2 + 3 * 3 + 3 * 36 * 3
    assert set(found["published-shape"]["shape"]) == {"agrees", "differs", "undecided"}


def test_an_experiment_that_repeats_no_post_is_one_line(make: Make) -> None:
    with pytest.raises(
        UsageError,
        match=r"own: its experiment does not reproduce a published post \(no key published\); those that do: chinaunix-2013",
    ):
        published_posts.find(make("own", blocks=1), None, True)
    with pytest.raises(UsageError, match="no published figures 'nobody'"):
        published_posts.find(make("other", blocks=1, published="nobody"), None, True)


def test_a_published_nothing_has_no_ratio_and_stands_in_the_table(small: Path) -> None:
    loaded = load_campaign(small)
    [reads] = [
        t
        for t in compare_published(loaded, post("smalldatum-2025-myrocks"))
        if t.table.name == "reads"
    ]
    hot = [f for (row, _), f in reads.figures.items() if row == "hot-points_range=100"]
    assert [(f.cell.value, f.value) for f in hot] == [(0, None)] * 3
    assert not [p for p in reads.pairs if p.group == "hot-points_range=100"]
    section = make_published_section(loaded, post("smalldatum-2025-myrocks"))
    [table] = [t for t in section.tables if t.title.startswith("Reads from storage")]
    [row] = [row for row in table.rows if row[0] == "point-query_range=100"]
    assert row[2:] == ["0.645", "–", "0.503", "–", "0.504", "–"]


@pytest.mark.parametrize(
    ("name", "table", "row", "values"),
    [
        ("percona-2012", "latency", "point selects, high threads, at most", {"tcmalloc": 50}),
        (
            "percona-2013",
            "qps",
            "oltp_point_select, 32 CPUs, 2048 clients",
            {"jemalloc": 140_000, "tcmalloc": 140_000},
        ),
        (
            "percona-2013",
            "qps",
            "oltp_point_select, 8 CPUs, 4096 clients",
            {"glibc": 80_000, "jemalloc": 100_000, "tcmalloc": 100_000},
        ),
        (
            "percona-2013",
            "ratio",
            "oltp_read_only, 32 CPUs, 1024 clients",
            {"jemalloc": 4, "tcmalloc": 4},
        ),
    ],
)
def test_figures_of_a_posts_text_are_rows(
    name: str, table: str, row: str, values: dict[str, float]
) -> None:
    [published] = [t for t in post(name).tables if t.name == table]
    assert {c.column: c.value for c in published.cells if c.row == row} == values
