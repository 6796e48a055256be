"""A campaign's heap profiles: which are found, what the report says of them, when a variant has
none.
"""

import json
from pathlib import Path

import example_probe_snapshots as made
import polars as pl
import pytest
from example_results import build

from dballoc.experiment import experiment_file
from dballoc.profile.formats.profile_file import save_profile
from dballoc.profile.heap import heap_profile
from dballoc.profile.heap.probe_snapshot import SampledBlock, parse_snapshot
from dballoc.profile.model import Frame
from dballoc.questions.campaign.figures import profiles as heaps
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.write_report import write_report_outputs

TABLE = {
    "name": "t",
    "baseline": "glibc",
    "workloads": ["oltp_read_only"],
    "threads": [1, 16],
    "design": "solo",
    "profile": "heap",
    "variant": [
        {"name": "glibc"},
        {"name": "jemalloc", "allocator": "jemalloc"},
        {"name": "tuned"},
    ],
}
STACKS = {
    8: (Frame("main", "server"), Frame("fill_cache", "server"), Frame("my_malloc", "server")),
    9: (Frame("main", "server"), Frame("sort_rows", "server")),
}
SIZES = [
    {
        "operation": operation,
        "sizes": [64, 128],
        "calls": 2048,
        "timed": 20,
        "mean": mean,
        "p50": 30,
        "p99": 400,
        "longest": 5000,
    }
    for operation, mean in (("malloc", 40.0), ("free", 20.0))
]


def keep(raw: Path, blocks: int) -> None:
    """A profile of so many blocks of 1 MiB that fill_cache holds, and what was seen beside it."""
    live = [SampledBlock(4096 * i, 2**20, 2**20, 1024, 20.0, 8, 5) for i in range(1, blocks + 1)]
    snapshot = parse_snapshot(
        made.snapshot(
            *map(made.live, live),
            made.stack(8, [1], 5e6, 3),
            made.stack(9, [2], 9e6, 3),
            made.waited(9, 0, 2, 100, 1, 10**6),
        )
    )
    raw.mkdir()
    save_profile(
        heap_profile.make_profile(snapshot, STACKS, "heap"),
        raw / "heap-oltp_read_only.profile.json.gz",
    )
    figures = {
        "seconds": 5.0,
        "live": blocks * 2.0**20,
        "live_error": 2.0**18,
        "objects": blocks,
        "allocated": 100 * 2.0**20,
        "allocations": 5e5,
        "sizes": SIZES,
        "malloc": {
            "seconds": 0.5,
            "share": 0.08,
            "stalls": 1000,
            "stalled_seconds": 1.0,
            "timed": 40,
        },
    }
    (raw / "heap-oltp_read_only.json").write_text(json.dumps(figures))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two blocks; glibc and jemalloc have a profile, tuned has none, and says why."""
    directory = build(
        tmp_path_factory.mktemp("heap") / "r",
        experiment_file.build_experiment(TABLE, "t"),
        2,
        (),
        (),
    )
    trials = load_campaign(directory).trial.filter(
        (pl.col("role") != "A2") & (pl.col("block") == 1)
    )
    raw = {
        r["variant"]: directory / "trials" / r["directory"] for r in trials.iter_rows(named=True)
    }
    for path in raw.values():
        path.mkdir(parents=True)
    keep(raw["glibc"] / "heap", 30)
    keep(raw["jemalloc"] / "heap", 20)
    (raw["tuned"] / "heap").mkdir()
    (raw["tuned"] / "heap" / "heap.txt").write_text("the server does not start\n")
    return directory


def test_each_variants_profile_is_found(campaign: Path) -> None:
    found = heaps.load_heap_profiles(campaign, load_campaign(campaign))
    assert found
    assert [(s.variant, s.missing) for s in found.profiles] == [
        ("glibc", ""), ("jemalloc", ""), ("tuned", "the server does not start"),
    ]  # fmt: skip


def test_the_report_shows_them(campaign: Path, tmp_path: Path) -> None:
    page = write_report_outputs(campaign, tmp_path / "out").read_text()
    text = (tmp_path / "out" / "report.md").read_text()
    assert 'id="heap"' in page
    assert page.count('class="flame-chart"') == 3
    [holder] = [line for line in text.splitlines() if line.startswith("| fill\\_cache |")]
    assert (
        holder == "| fill\\_cache | 30.0 ± 0.0 | 20.0 ± 0.0 |"
    )  # far larger than the interval: none was missed
    [turnover] = [
        line for line in text.splitlines() if line.startswith("| glibc |") and "8.0 %" in line
    ]
    assert turnover == "| glibc | 30.0 | 0.2 | 20.0 | 100,000 | 8.0 % | 40.0 | 20.0 | 200 | 40 |"
    assert "No heap profile of tuned under oltp\\_read\\_only: the server does not start." in text
    rows = pl.read_csv(tmp_path / "out" / "csv" / "heap-functions.csv")
    stalled = rows.filter((pl.col("function") == "sort_rows") & (pl.col("variant") == "glibc"))
    assert stalled["stalled"].to_list() == pytest.approx([1.024])
    assert stalled["seconds"].to_list() == pytest.approx([100 * 1024 * 32 / 1e9])
    assert pl.read_csv(tmp_path / "out" / "csv" / "heap-calls.csv").height == 4
    assert "](charts/heap-live-oltp_read_only.html)" in text
    assert (tmp_path / "out" / "charts" / "malloc-time-oltp_read_only.svg").exists()


def test_without_the_key_there_is_no_section(tmp_path: Path) -> None:
    plain = {key: value for key, value in TABLE.items() if key != "profile"}
    directory = build(tmp_path / "r", experiment_file.build_experiment(plain, "t"), 1, (), ())
    assert heaps.load_heap_profiles(directory, load_campaign(directory)) is None
