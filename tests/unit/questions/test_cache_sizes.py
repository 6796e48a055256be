"""Peak RSS ÷ cache against the size of the cache, and between which sizes a server is killed for
its memory.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from example_results import MIB, SIZES

from dballoc.cli.shared import experiment_from_flags
from dballoc.experiment import scale
from dballoc.experiment.model import Experiment
from dballoc.questions.campaign.charts.cache_sizes import draw_cache_sizes
from dballoc.questions.campaign.figures.cache_sizes import CacheLine, CacheSize, read_cache_lines
from dballoc.questions.campaign.sections.cache_sizes import (
    describe_cache_sizes,
    tabulate_cache_sizes,
)
from dballoc.questions.compare.campaign_tables import Campaign, load_campaign
from dballoc.questions.report_content import gather_report

Make = Callable[..., Path]

GIB = 2**30
# What the author of Small Datum guessed about, and what it would look like if he is right.
TIMES = {"glibc": 3.0, "tcmalloc": 1.25, "jemalloc": 1.2}


def list_variants(caches: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{malloc}-{size}",
            "allocator": malloc,
            "server": {"options": {"innodb_buffer_pool_size": size}},
        }
        for malloc in TIMES
        for size in caches
    ]


@pytest.fixture
def campaign(make: Make, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """glibc takes three times its cache; with 120G it is killed from 50G on, and with 40G once."""
    caches = ["100G", "10G", "30G", "40G", "50G"]
    sql = []
    for malloc, times in TIMES.items():
        for size in caches:
            monkeypatch.setitem(SIZES, f"{malloc}-{size}", MIB)
            peak = int(times * int(size[:-1]) * GIB)
            sql.append(f"UPDATE trial SET rss_peak = {peak} WHERE variant = '{malloc}-{size}'")
    killed = "UPDATE trial SET outcome = 'fault', fault = 'oom', rss_peak = 119 * 1073741824 WHERE "
    sql.append(killed + "variant IN ('glibc-50G', 'glibc-100G')")
    sql.append(killed + "variant = 'glibc-40G' AND block = 2")
    path = make(
        "caches",
        blocks=2,
        design="solo",
        baseline="jemalloc-10G",
        limits={"memory": "120G"},
        variant=list_variants(caches),
        sql=tuple(sql),
    )
    return load_campaign(path)


def test_the_report_says_between_which_sizes_a_malloc_is_killed(campaign: Campaign) -> None:
    report = gather_report(campaign)
    memory = next(s for s in report.sections if s.key == "memory")
    assert memory.text[:4] == [
        "Peak RSS ÷ cache, within 120G for the server.",
        "glibc: 3.00 at 10G, 3.00 at 40G, 3.00 for each byte between; killed for memory between 30G and 40G (1 of 2 trials).",
        "tcmalloc: 1.25 at 10G, 1.25 at 100G, 1.25 for each byte between; never killed for memory.",
        "jemalloc: 1.20 at 10G, 1.20 at 100G, 1.20 for each byte between; never killed for memory.",
    ]
    assert report.screen[0].text == memory.text[:4]
    assert memory.figures[0].key == "cache-sizes"
    assert memory.tables[0].rows[3:6] == [
        ["glibc", "50G", "–", "–", "2 of 2", "121,856.0"],
        ["glibc", "100G", "–", "–", "2 of 2", "121,856.0"],
        ["tcmalloc", "10G", "1.25", "12,800.0", "0 of 2", "–"],
    ]


def test_the_picture_has_a_line_a_malloc_and_a_cross_where_it_was_killed(
    campaign: Campaign,
) -> None:
    figure = draw_cache_sizes(read_cache_lines(campaign), 120 * GIB)
    chart = figure.chart
    assert (
        "The line at 1 is the cache itself. The dashed curve is the memory limit" in figure.caption
    )
    [points] = [rows for rows in chart["datasets"].values() if "outcome" in rows[0]]
    of_glibc = [(r["cache"], r["ratio"], r["outcome"]) for r in points if r["variant"] == "glibc"]
    assert of_glibc == [
        (10, 3, "survived"),
        (30, 3, "survived"),
        (40, 3, "survived"),
        (40, 119 / 40, "killed for memory"),
        (50, 119 / 50, "killed for memory"),
        (100, 119 / 100, "killed for memory"),
    ]
    domain = chart["layer"][-1]["encoding"]["color"]["scale"]["domain"]
    assert domain == list(TIMES)
    # Without a limit there is no curve of it.
    assert len(draw_cache_sizes(read_cache_lines(campaign), None).chart["layer"]) == 3
    # Between two sizes RSS grows evenly, so the line of one ratio stays at it.
    [path] = [r for r in chart["datasets"].values() if set(r[0]) == {"variant", "cache", "ratio"}]
    assert {r["ratio"] for r in path if r["variant"] == "glibc"} == {3}
    # Nothing else of an axis tells 32 from 30.
    axis = chart["layer"][-1]["encoding"]["x"]["axis"]
    assert (axis["values"], axis["format"]) == ([10, 30, 40, 50, 100], ",.6~r")


def make_line(*sizes: tuple[int, int, int]) -> CacheLine:
    """Sizes in GiB, with how many trials survived and how many were killed."""
    return CacheLine(
        name="glibc",
        sizes=tuple(
            CacheSize(
                line="glibc", variant=f"glibc-{size}", size=size * GIB, full_size=size * GIB,
                peaks=(2 * size * GIB,) * survived, kills=kills, trials=survived + kills,
                killed_at=None,
            )
            for size, survived, kills in sizes
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        (
            [(10, 2, 0), (30, 2, 0)],
            "glibc: 2.00 at 10G, 2.00 at 30G, 2.00 for each byte between; never killed for memory.",
        ),
        ([(10, 0, 2), (30, 0, 2)], "glibc: no ratio; killed for memory at 10G, the smallest."),
        ([(10, 2, 0), (30, 0, 2)], "glibc: 2.00 at 10G; killed for memory between 10G and 30G."),
        (
            [(10, 1, 1), (30, 2, 0)],
            "glibc: 2.00 at 10G, 2.00 at 30G, 2.00 for each byte between; killed for memory at 10G, the smallest (1 of 2 "
            "trials), though trials at 30G survived.",
        ),
        # Of a size whose trials ended in other faults nothing is known.
        (
            [(10, 2, 0), (30, 0, 0), (40, 0, 1)],
            "glibc: 2.00 at 10G; killed for memory between 10G and 40G.",
        ),
    ],
)
def test_what_is_said_of_a_line(sizes: list[tuple[int, int, int]], sentence: str) -> None:
    assert describe_cache_sizes([make_line(*sizes)], None) == ["Peak RSS ÷ cache.", sentence]


def test_what_a_server_has_beside_its_cache_is_not_in_its_growth() -> None:
    """A gigabyte beside the cache, and twice the cache."""
    points = make_line((1, 1, 0), (2, 0, 1), (4, 1, 0)).sizes
    sizes = tuple(replace(p, peaks=tuple(peak + GIB for peak in p.peaks)) for p in points)
    line = CacheLine(name="glibc", sizes=sizes)
    assert [p.ratio for p in line.sizes] == [3, None, 2.25]
    assert line.growth == 2
    assert CacheLine(name="glibc", sizes=sizes[:2]).growth is None


def test_variants_of_one_cache_have_no_such_picture(make: Make) -> None:
    """Options that differ in more than the cache make lines of one point each."""
    options = {"innodb_buffer_pool_size": "1G", "sync_binlog": "0"}
    for number, variants in enumerate(
        (
            [{"name": "glibc"}, {"name": "jemalloc", "allocator": "jemalloc"}],
            [{"name": "glibc"}, {"name": "jemalloc", "server": {"options": options}}],
        )
    ):
        path = make(
            f"plain-{number}",
            blocks=2,
            server={"options": {"innodb_buffer_pool_size": "2G"}},
            variant=variants,
        )
        campaign = load_campaign(path)
        assert read_cache_lines(campaign) == []
        report = gather_report(campaign)
        assert "cache-sizes" not in {f.key for s in report.sections for f in s.figures}


def test_a_sweep_over_the_cache_makes_a_line(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from dballoc.experiment.sweep import expand_sweeps

    sweep = {"server": {"innodb_buffer_pool_size": ["1G", "2G"]}}
    table = expand_sweeps(
        {
            "baseline": "glibc",
            "variant": [
                {"name": "glibc", "sweep": sweep},
                {"name": "jemalloc", "allocator": "jemalloc", "sweep": sweep},
            ],
        },
        2,
        "x",
    )
    for variant in table["variant"]:
        monkeypatch.setitem(SIZES, variant["name"], MIB)
    options = {"innodb-buffer-pool-size": "4G"}
    path = make("swept", blocks=1, server={"options": options}, variant=table["variant"])
    lines = read_cache_lines(load_campaign(path))
    assert [(line.name, [s.size // GIB for s in line.sizes]) for line in lines] == [
        ("glibc", [1, 2, 4]),
        ("jemalloc", [1, 2]),
    ]


def read_shipped() -> Experiment:
    return experiment_from_flags.experiment(None, "smalldatum-2025-myrocks-caches", {})


def test_the_shipped_experiment_has_the_authors_sizes(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At full scale, and named beside those of a scaled run."""
    full = read_shipped()
    caches = [10, 30, 40, 50, 80, 100]
    sizes = [scale.find_cache_size(full, v) for v in full.variant]
    assert sizes == [size * GIB for size in caches] * 3
    small = scale.scale_experiment(full, full.small or 1, range(2), "x")
    for variant in small.variant:
        monkeypatch.setitem(SIZES, variant.name, MIB)
    table = small.model_dump(mode="json", exclude_defaults=True, exclude={"name", "post", "blocks"})
    table |= {"workloads": ["oltp_read_only"], "before": {}, "warm": []}
    lines = read_cache_lines(load_campaign(make("shipped", blocks=1, **table)))
    assert [line.name for line in lines] == ["glibc", "tcmalloc", "jemalloc"]
    assert [size.full_size // GIB for size in lines[0].sizes] == caches
    assert [row[1] for row in tabulate_cache_sizes(lines).rows[:2]] == ["51M (10G)", "154M (30G)"]
    assert describe_cache_sizes(lines, None)[0].endswith("In brackets: the size at full scale.")
