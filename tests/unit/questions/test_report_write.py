"""The whole report of results that no server made: every kind of campaign gives one, and nothing
leaks or breaks out.
"""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
from example_results import (
    MIB,
    block_row,
    duet_record,
    facts,
    fault,
    record,
    variant,
)
from rich.console import Console

from dballoc.document.terminal import print_document
from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.questions.campaign.figures import trial_tables
from dballoc.questions.campaign.figures.level_curves import compare_all_pairs
from dballoc.questions.campaign.figures.time_series import build_time_series
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.report_content import gather_report
from dballoc.questions.write_report import gather_document, write_report_outputs
from dballoc.store.facts import WorkloadFacts
from dballoc.store.results import Results

pytestmark = pytest.mark.long

Campaign = Callable[..., Path]


@pytest.fixture
def campaign(tmp_path: Path, experiment: Callable[..., Experiment]) -> Campaign:
    """``campaign(blocks=2, faulty=("tuned",), stop_after=3, …)``: a results directory; the rest
    changes the experiment.
    """

    def make(
        blocks: int = 2, faulty: tuple[str, ...] = (), stop_after: int = 999, **changes: Any
    ) -> Path:
        time = {"warmup": "2s", "level": "3s", "idle": "2s"}
        chosen = experiment(**({"time": time, "warmup_sql": ["SELECT 1"]} | changes))
        directory = tmp_path / "results"
        directory.mkdir()
        designs = ["solo", "duet"] if chosen.design == "both" else [chosen.design or "solo"]
        results = Results.create(
            directory, facts(chosen, blocks, designs), [variant(v.name) for v in chosen.variant]
        )
        duets = (
            [p for b in range(1, blocks + 1) for p in schedule.order_duets(chosen, b)]
            if "duet" in designs
            else []
        )
        for p in duets:
            sides = [
                fault() if n in faulty else duet_record(chosen, p, i)
                for i, n in enumerate((chosen.baseline, p.variant))
            ]
            results.add_trial(p, *sides)
        for number in {p.block for p in duets}:
            results.add(block_row("duet", number, "others" if number == 1 else None))
        slots = (
            [s for b in range(1, blocks + 1) for s in schedule.order_block(chosen, b)]
            if "solo" in designs
            else []
        )
        for done, slot in enumerate(slots[:stop_after], 1):
            results.add_trial(slot, fault() if slot.variant in faulty else record(chosen, slot))
            if done == len(slots) or slots[done].block != slot.block:
                results.add(block_row("solo", slot.block, "others" if slot.block == 1 else None))
        results.close()
        return directory

    return make


STAY = "Stay with glibc: nothing is shown to be better"


@pytest.mark.parametrize(
    ("how", "headline"),
    [
        ({"blocks": 3}, "Use jemalloc"),
        ({"blocks": 1}, STAY),
        ({"stop_after": 1}, f"So far: {STAY}"),
        ({"blocks": 3, "faulty": ("jemalloc",)}, STAY),
        ({"blocks": 2, "faulty": ("glibc",)}, "The baseline failed 4 of 4: no ratio"),
        ({"blocks": 2, "faulty": ("glibc", "jemalloc", "tuned")}, "The baseline failed 4 of 4: no ratio"),
        ({"blocks": 3, "levels": "fresh"}, "Use jemalloc"),
        ({"blocks": 3, "workloads": ["oltp_read_only", "oltp_point_select"], "threads": [1]}, "Use jemalloc"),
        ({"variant": [{"name": "glibc"}]}, STAY),
        ({"blocks": 3, "design": "both"}, "Use jemalloc"),
        ({"blocks": 3, "design": "duet"}, "jemalloc looks better, not settled"),
        ({"blocks": 1, "design": "duet"}, STAY),
        ({"blocks": 3, "design": "duet", "faulty": ("glibc",)}, "The baseline failed 12 of 12: no ratio"),
        ({"variant": [{"name": "glibc"}], "design": "duet"}, STAY),
        ({"blocks": 3, "time": {"warmup": "0s", "level": "3s", "idle": "0s"}}, "Use jemalloc"),
        ({"blocks": 3, "sequence": "fresh", "workloads": ["load", "oltp_insert"]}, "Use jemalloc"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_every_kind_of_campaign_has_a_report(
    campaign: Campaign, how: dict[str, Any], headline: str
) -> None:
    page = write_report_outputs(campaign(**how))
    assert f"<h1>{headline}</h1>" in page.read_text(encoding="utf-8")
    assert f"**{headline}.**" in page.with_suffix(".md").read_text(encoding="utf-8")
    charts = page.parent / "charts"
    assert {p.stem for p in charts.glob("*.svg")} == {p.stem for p in charts.glob("*.png")}
    assert all(p.stat().st_size > 1000 for p in charts.iterdir())
    for path in (page.parent / "csv").iterdir():
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        assert rows, path
        assert len({len(row) for row in rows}) == 1, path


def test_charts_are_valid_vega_lite(make: Callable[..., Path]) -> None:
    """Against the schema, which a report does not take the time for."""
    content = gather_report(load_campaign(make("valid", design="both", threads=[1, 4])))
    assert len(content.figures) > 10
    for figure in content.figures:
        assert alt.LayerChart.from_dict(figure.chart, validate=True)


MANY = [
    "load",
    "update-index_range=100",
    "scan_range=100",
    "read-only_range=10",
    "read-only_range=100",
    "hot-points_range=100",
]
MANY += [
    "range-covered-pk_range=100",
    "insert_range=100",
    "delete_range=100",
    "point-query_range=100",
]


@pytest.mark.parametrize("sequence", ["cycle", "fresh"])
def test_many_workloads_stay_readable(campaign: Campaign, sequence: str) -> None:
    directory = campaign(
        blocks=3, workloads=MANY, warm=["scan_range=100"], threads=[4], sequence=sequence
    )
    group = {
        "update-index_range=100": "writes",
        "scan_range=100": "range",
        "point-query_range=100": "point",
    }
    known = {
        name: WorkloadFacts(
            title=f"what {name} does",
            group=group.get(name, ""),
            script="dballoc_micro",
            options={"range": "100"},
            reads_whole_tables=name.startswith("scan"),
        )
        for name in MANY
    }
    results = Results.open(directory)
    results.change_facts(workloads=known)
    results.close()
    page = write_report_outputs(directory)
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    # A row for each workload, groups in the published order, a column for each variant.
    rows = [
        line for line in text.split("**Relative QPS.**")[1].splitlines() if line.startswith("| ")
    ][2:12]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[:3]] == [
        "point queries",
        "range queries",
        "writes",
    ]
    assert all(len(row.split(" | ")) == 5 for row in rows)
    scanned = text.split("**Rows a second.**")[1].split("**")[0]
    # Four clients, each a thousand times a second the 100,000 rows of a table.
    assert re.search(r"\| glibc \| 40\d,\d{3},\d{3} \|", scanned)
    assert "what hot-points" in text
    # No chart of each, and no sentence of each.
    assert len(list((page.parent / "charts").glob("*.svg"))) <= 9
    assert "Of several workloads the one that may be the worst" in text
    console = Console(file=io.StringIO(), width=100)
    print_document(console, gather_document(directory))
    assert (
        f"QPS over {len(MANY) - 1} workloads with 4 clients, mean of the ratios to glibc: jemalloc"
        in text
    )
    assert console.file.getvalue().count("\n") < 36  # type: ignore[attr-defined]
    widest = max(line.count(" | ") for line in text.splitlines() if line.startswith("|"))
    assert widest <= 12


def test_the_files_that_others_script_against(campaign: Campaign, tmp_path: Path) -> None:
    directory, out = campaign(), tmp_path / "elsewhere" / "deep"
    assert write_report_outputs(directory, out) == out / "report.html"
    assert {p.name for p in out.iterdir()} == {
        "report.html",
        "report.md",
        "recommendation.json",
        "csv",
        "charts",
    }
    tables = {p.stem for p in (out / "csv").iterdir()}
    assert tables >= {
        "trials",
        "levels",
        "relative",
        "memory",
        "timeline",
        "comparisons",
        "floor",
        "faults",
    }
    assert {p.name for p in directory.iterdir()} == {"results.sqlite"}
    assert (out / "report.html").stat().st_size < 3 * MIB


def test_text_from_results_stays_text(campaign: Campaign) -> None:
    page = write_report_outputs(campaign(faulty=("tuned",)))
    text = page.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    cells = [
        line
        for line in page.with_suffix(".md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    assert not any("<script>" in line for line in cells)
    assert any("\\| jane" in line for line in cells)


def test_redacted_everywhere(campaign: Campaign) -> None:
    page = write_report_outputs(campaign(faulty=("tuned",)), redact=True)
    for path in page.parent.rglob("*"):
        if path.suffix in (".html", ".md", ".csv", ".svg", ".json"):
            text = path.read_text(encoding="utf-8").lower()
            assert not [word for word in ("dbhost7", "jane", "acme", "/home/") if word in text], (
                path
            )
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "…/x.so on HOST" in text
    assert "USER" in text
    assert "…/lib.so" in text


@pytest.mark.parametrize("levels", ["rising", "fresh"])
def test_over_time_all_trials_share_a_clock(campaign: Campaign, levels: str) -> None:
    found = build_time_series(load_campaign(campaign(levels=levels)))
    steps = found.steps.select("begin", "end").rows()
    assert [begin for begin, _ in steps[1:]] == pytest.approx([end for _, end in steps[:-1]])
    assert [t for (t,) in found.steps.filter(kind="level").select("threads").rows()] == [1, 4]
    inside = found.series.join(found.steps, on=["start", "step"])
    assert inside.height == found.series.height
    assert inside.filter(pl.col("second").is_between("begin", "end")).height == inside.height
    assert set(found.series.filter(measure="user")["value"].round(6)) == {100.0}


def test_pairs_are_of_all_with_all(campaign: Campaign) -> None:
    found = compare_all_pairs(load_campaign(campaign(blocks=3)))
    assert {(a, b) for a, b in found.select("first", "second").rows()} == {
        ("glibc", "jemalloc"),
        ("glibc", "tuned"),
        ("jemalloc", "tuned"),
    }
    peak = found.filter(first="jemalloc", second="tuned", measure="rss_peak").row(0, named=True)
    assert peak["low"] < 150 / 170 < peak["high"]
    assert peak["n"] == 3


def test_where_the_memory_was(campaign: Campaign) -> None:
    directory = campaign(blocks=3)
    found = trial_tables.build_ledger_table(load_campaign(directory))
    assert found["owner"].unique(maintain_order=True).to_list() == [
        "buffer pool and log buffers",
        "allocator, and unnamed mappings",
        "live heap, small blocks",
        "rest",
    ]
    sums = dict(found.group_by("variant").agg(pl.col("resident").sum()).iter_rows())
    assert sums["jemalloc"] == pytest.approx(150 * MIB, rel=0.01)
    text = write_report_outputs(directory).with_suffix(".md").read_text(encoding="utf-8")
    assert "| sum | 160 | 150 | 170 |" in re.sub(
        r"(\d+)\.\d", r"\1", text.split("**Where the memory was.**")[1]
    )


def test_pairs_of_a_duet_meet_through_their_baselines(campaign: Campaign) -> None:
    found = compare_all_pairs(load_campaign(campaign(blocks=3, design="duet")))
    assert set(found["measure"]) == {"cpu"}
    to_baseline = found.filter(first="glibc", second="jemalloc").row(0, named=True)
    # The partner costs 3 % less.
    assert to_baseline["low"] < 1 / 0.97 < to_baseline["high"]
    assert found.filter(first="jemalloc", second="tuned").row(0, named=True)[
        "ratio"
    ] == pytest.approx(1, abs=0.02)


def test_nothing_finished_is_one_line(campaign: Campaign) -> None:
    directory = campaign(stop_after=0)
    with pytest.raises(UsageError, match="no trial is finished yet"):
        write_report_outputs(directory)
    assert {p.name for p in directory.iterdir()} == {"results.sqlite"}


def test_no_results_directory_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a results directory"):
        write_report_outputs(tmp_path)


def test_a_place_that_cannot_be_written_is_one_line(campaign: Campaign, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("")
    with pytest.raises(Failure, match="the report cannot be written"):
        write_report_outputs(campaign(), tmp_path / "occupied")
