"""Figures of the whole host, and VSZ: from the store's rows to tables, charts and CSV."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dballoc import catalogue
from dballoc.document.charts import Variants
from dballoc.document.model import Figure, Section
from dballoc.questions.campaign.charts import levels
from dballoc.questions.campaign.charts.levels import draw_time_series
from dballoc.questions.campaign.figures import level_curves, trial_tables
from dballoc.questions.campaign.figures.time_series import POINTS, build_time_series
from dballoc.questions.campaign.sections.tables import tabulate_memory
from dballoc.questions.compare.campaign_tables import add_virtual_size, load_campaign
from dballoc.questions.compare.measures import OF_LEVEL
from dballoc.questions.published import post_figures
from dballoc.questions.published.figures import compare_published
from dballoc.questions.published.measured_figures import MeasuredFigures
from dballoc.questions.published.sections import make_published_section
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]
TIB, GIB = 2**40, 2**30
WITHOUT_HOST = ("DELETE FROM host_sample", "DELETE FROM host_step")


def find_section(directory: Path, key: str) -> Section:
    content = gather_report(load_campaign(directory))
    [section] = [s for s in content.sections if s.key == key]
    return section


def test_figures_of_a_level(make: Make) -> None:
    rows = load_campaign(make("r", blocks=2, threads=[4])).levels
    assert rows.height == 8
    for row in rows.iter_rows(named=True):
        assert row["host_user"] == pytest.approx(60)
        assert row["host_system"] == pytest.approx(20)
        # 1.6 s of CPU and 5,000 switches a second.
        assert row["host_cpu_per_operation"] == pytest.approx(1.6e6 / row["tps"], rel=1e-3)
        assert row["context_switches_per_operation"] == pytest.approx(5000 / row["tps"], rel=1e-3)
        assert row["vsz_peak"] == pytest.approx(9 * row["rss_peak"])


def test_a_host_without_time_or_switches_has_no_figures(make: Make) -> None:
    still = "UPDATE host_step SET user = 0, system = 0, idle = 0, iowait = 0, steal = 0"
    rows = load_campaign(make("a", blocks=2, sql=(still,))).levels
    host = [m.levels for m in OF_LEVEL.values() if m.host]
    assert all(rows[measure].null_count() == rows.height for measure in host)
    silent = ("UPDATE host_step SET switches = 0",)
    rows = load_campaign(make("b", blocks=2, sql=silent)).levels
    assert rows["context_switches_per_operation"].null_count() == rows.height
    assert rows["host_user"].null_count() == 0


def test_what_dballoc_used_is_a_share_of_the_machine_and_of_each_clients_thread(make: Make) -> None:
    """Of the examples' two CPUs, 2 % of one beside a server, 4 % beside several."""
    [table] = find_section(make("s", blocks=2, threads=[4, 16]), "own-cpu").tables
    assert table.rows == [
        ["solo", "oltp_read_only", "4", "1.000 %", "2.00 %", "0.500 %"],
        ["solo", "oltp_read_only", "16", "1.000 %", "2.00 %", "0.125 %"],
    ]
    [table] = find_section(make("t", blocks=2, threads=[4, 16], design="turns"), "own-cpu").tables
    assert table.rows == [["turns", "oltp_read_only", "16", "2.000 %", "4.00 %", "0.250 %"]]
    campaign = load_campaign(make("d", blocks=2, design="duet"))
    rows = trial_tables.compute_own_cpu(campaign).rows(named=True)
    assert [row["clients"] for row in rows] == [2 * campaign.facts.duet.threads]
    assert rows[0]["each"] == pytest.approx(0.04 / rows[0]["clients"])
    unmeasured = load_campaign(make("u", blocks=2, sql=("UPDATE host_step SET own_cpu = NULL",)))
    assert trial_tables.compute_own_cpu(unmeasured).is_empty()
    assert "own-cpu" not in [section.key for section in gather_report(unmeasured).sections]


def test_the_report_sets_the_host_beside_the_server(make: Make) -> None:
    [table] = find_section(make("r", blocks=2), "cpu").tables
    headings = [column for column in table.columns if column.startswith("host: ")]
    assert headings == [
        "host: user, % of all CPUs",
        "host: system, % of all CPUs",
        "host: cpu/o, µs",
        "host: cs/o",
    ]
    assert len(table.columns) == len(table.rows[0]) == 10
    assert table.rows[0][table.columns.index(headings[0])].startswith("60.0")


def test_results_in_which_the_host_was_not_measured(make: Make) -> None:
    content = gather_report(load_campaign(make("r", blocks=2, sql=WITHOUT_HOST)))
    [table] = next(s for s in content.sections if s.key == "cpu").tables
    assert not [column for column in table.columns if column.startswith("host")]
    charts = {figure.key for figure in content.figures}
    assert "time-user-oltp_read_only" in charts
    assert not [name for name in charts if "host" in name]


def layers_of(figure: Figure) -> list[list[dict[str, Any]]]:
    """The rows that each layer of a chart draws."""
    chart = figure.chart
    return [chart["datasets"][layer["data"]["name"]] for layer in chart["layer"]]


def test_charts_over_time_have_a_panel_a_level(make: Make) -> None:
    workloads = ["oltp_read_only", "oltp_read_write"]
    campaign = load_campaign(make("r", blocks=2, workloads=workloads, threads=[1, 4, 16]))
    figures = draw_time_series(build_time_series(campaign), Variants(campaign.names))
    keys = [figure.key for figure in figures]
    assert keys == [
        *(f"time-{m}-{w}" for w in workloads for m in ("tps", "qps", "host-user", "rss", "vsz")),
        "time-rss",
        "time-vsz",
    ]
    assert len({figure.title for figure in figures}) == len(figures)
    borders, numbers, lines = layers_of(figures[0])
    assert [r["text"] for r in numbers] == ["1", "4", "16"]
    assert [r["second"] for r in borders] == [0.0, 3.0, 6.0]
    assert {r["variant"] for r in lines} == set(campaign.names)
    assert 0 < min(r["second"] for r in lines) < max(r["second"] for r in lines) < 9.0
    for figure in figures:
        spec = figure.chart["layer"][-1]
        unit = {"tps": "per second", "qps": "per second", "user": "%", "rss": "MiB", "vsz": "MiB"}
        axis = spec["encoding"]["y"]["title"]
        assert next(v for k, v in unit.items() if k in figure.key) in axis
        assert 0 < len(layers_of(figure)[-1]) <= len(campaign.names) * POINTS


def test_transactions_of_one_query_have_no_chart_over_time(make: Make) -> None:
    single = ("UPDATE interval SET queries = events",)
    campaign = load_campaign(make("one", blocks=2, sql=single))
    figures = draw_time_series(build_time_series(campaign), Variants(campaign.names))
    assert not [figure.key for figure in figures if "tps" in figure.key]


def test_many_levels_have_numbers_as_far_as_there_is_room(make: Make) -> None:
    campaign = load_campaign(make("r", blocks=2, threads=list(range(1, 41))))
    [figure, *_] = draw_time_series(build_time_series(campaign), Variants(campaign.names))
    _, numbers, _ = layers_of(figure)
    assert [n["text"] for n in numbers][:3] == ["1", "4", "7"]
    assert len(numbers) <= 16


def test_what_only_warms_up_has_no_chart(make: Make) -> None:
    campaign = load_campaign(make("r", blocks=2, warm=["oltp_point_select"]))
    figures = draw_time_series(build_time_series(campaign), Variants(campaign.names))
    assert not [figure.key for figure in figures if "point" in figure.key]


def test_queries_have_a_chart_where_a_transaction_has_many(make: Make) -> None:
    directory = make("many", blocks=2)
    keys = {figure.key for figure in gather_report(load_campaign(directory)).figures}
    workload = "oltp_read_only"
    assert {f"{key}-{workload}" for key in ("tps", "qps", "host-user", "vsz-peak")} <= keys
    one = load_campaign(make("one", blocks=2, sql=("UPDATE step SET qps = tps",)))
    assert not levels.has_many_queries(level_curves.average_levels(one), workload)


def samples(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"trial": 1, "t": [0.0, 1.0, 2.0], **columns})


def test_vsz_is_what_ps_shows() -> None:
    # Arenas are reserved as they come: they are the malloc's.
    arenas = samples(vsz=[GIB, 2 * GIB, 9 * GIB], reserved=[0, GIB, 8 * GIB])
    assert add_virtual_size(arenas)["virtual"].to_list() == [GIB, 2 * GIB, 9 * GIB]


def test_what_a_server_reserves_by_the_terabyte_is_left_out() -> None:
    both = samples(
        vsz=[8 * TIB + GIB, 8 * TIB + 3 * GIB, 8 * TIB + 3 * GIB],
        reserved=[8 * TIB, 8 * TIB + GIB, 8 * TIB],
    )
    assert add_virtual_size(both)["virtual"].to_list() == [GIB, 3 * GIB, 3 * GIB]


def test_peak_vsz_is_in_the_ordinary_memory_table(make: Make) -> None:
    directory = make("r", blocks=2)
    campaign = load_campaign(directory)
    memory = trial_tables.build_memory_table(campaign)
    assert memory["vsz_peak"].to_list() == pytest.approx([9 * peak for peak in memory["peak"]])
    table = tabulate_memory(campaign)
    assert "peak VSZ" in table.columns
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_posts_are_compared_in_vsz_as_they_have_it(make: Make) -> None:
    # The last sample of the load has another GiB, which is reserved.
    grown = f"UPDATE sample SET vsz = vsz + {GIB}, reserved = reserved + {GIB} WHERE step > 2"
    campaign = load_campaign(make("r", blocks=2, threads=[4], sql=(grown,)))
    growth = MeasuredFigures(campaign).find_blocks("jemalloc", "vsz_growth", None, None)
    assert set(growth) == {1, 2}
    assert all(value == pytest.approx(GIB) for value in growth.values())
    assert trial_tables.build_memory_table(campaign)["vsz_growth"].to_list() == [0, 0, 0]


def test_chinaunixs_user_cpu_is_compared_with_the_hosts(make: Make) -> None:
    campaign = load_campaign(
        make("r", blocks=3, workloads=["oltp_read_only", "oltp_read_write"], threads=[4])
    )
    published = post_figures.parse_published(
        "chinaunix-2013", *catalogue.published()["chinaunix-2013"]
    )
    [table] = compare_published(campaign, published)
    for row in ("read only, CPU user", "read write, CPU user"):
        assert table.figures[row, "jemalloc-3.4.0"].value == pytest.approx(1)
    text = " ".join(make_published_section(campaign, published).text)
    assert "those of all that ran on it, there and here; here the clients run on it too" in text
    assert "ours are the server's alone" not in text
