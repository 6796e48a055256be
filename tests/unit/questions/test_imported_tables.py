"""What a report has of tables by variant and of outputs without transactions: no more than they say."""

import csv
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from example_load_outputs import mysqlslap

from dballoc import catalogue
from dballoc.document.model import Document, Table
from dballoc.ground.errors import Failure
from dballoc.intake.import_results import import_results
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.imported.sections import collect_imported_tables
from dballoc.questions.report_content import gather_report
from dballoc.store.open_database import FILE

RATES = "workload,glibc,jemalloc\nhot-points,95454,96408.54\nscan,30.5,-\n"


def write_post() -> str:
    """The shipped ratios of a post, in its author's layout."""
    _, text = catalogue.look_up(
        catalogue.published(), "smalldatum-2025-innodb", "published figures"
    )
    ratios: dict[str, dict[str, str]] = {}
    for cell in csv.DictReader(text.splitlines()):
        if cell["table"] == "qps":
            ratios.setdefault(cell["workload"], {})[cell["variant"]] = cell["value"]
    rows = [f"{of['tcmalloc']} {of['jemalloc']} {workload}" for workload, of in ratios.items()]
    head = "Relative to results with glibc malloc\ncol-1 : tcmalloc\ncol-2 : jemalloc\n\n"
    return head + "\n".join(["col-1 col-2", *rows, ""])


def bring(tmp_path: Path, text: str, mapping: str = "") -> Path:
    directory = tmp_path / "tables"
    directory.mkdir()
    (directory / "a.txt").write_text(text)
    if mapping:
        (directory / "import.toml").write_text(mapping)
    import_results([directory if mapping else directory / "a.txt"], tmp_path / "out")
    return tmp_path / "out"


def report(directory: Path) -> Document:
    return gather_report(load_campaign(directory))


def list_tables(document: Document) -> dict[str, Table]:
    return {table.title: table for s in document.sections for table in s.tables}


def list_words(document: Document) -> str:
    sections = [*document.sections, *document.screen]
    texts = [t for s in sections for t in s.text]
    captions = [t.caption for s in sections for t in s.tables]
    captions += [f.caption for s in sections for f in s.figures]
    return " ".join([document.answer.headline, *document.answer.notes, *texts, *captions])


def test_the_posts_own_figures_give_its_authors_headline(tmp_path: Path) -> None:
    """[jemalloc, tcmalloc] get [2.5 %, 3.5 %] more QPS than glibc malloc."""
    document = report(bring(tmp_path, write_post()))
    answer = document.answer
    assert answer.headline == "32 workloads at one level, relative to glibc-malloc"
    assert "64 figures, 32 workloads, 3 variants" in answer.reason
    assert [(line.name, line.text) for line in answer.variants] == [
        ("tcmalloc", "0.950 (random-points_range=100) to 1.280 (read-only_range=10000)"),
        (
            "jemalloc",
            "0.980 (points-notcovered-si_range=100) to 1.120 (read-only-order_range=1000)",
        ),
    ]
    words = list_words(document)
    assert (
        "mean of the ratios to glibc-malloc: tcmalloc +3.5 % [+1.1, +5.9]; jemalloc +2.5 %" in words
    )
    assert [s.key for s in document.sections] == ["glance", "origin"]


def test_what_the_files_leave_open_is_not_filled_in(tmp_path: Path) -> None:
    directory = bring(tmp_path, write_post())
    words = list_words(report(directory))
    assert "The files do not say under how many clients" in words
    assert "an unstated number of clients" in words
    assert "1 client" not in words
    assert "The files have ratios of throughput to glibc-malloc's" in words
    assert "transactions/s" not in str([t.columns for t in list_tables(report(directory)).values()])
    tables = collect_imported_tables(load_campaign(directory))
    assert set(tables["levels"]["measure"]) == {"ratio"}
    for name, column in (("levels", "threads"), ("relative", "threads"), ("trials", "level")):
        assert set(tables[name][column]) == {None}


def test_stated_clients_are_said(tmp_path: Path) -> None:
    directory = bring(tmp_path, write_post(), 'threads = 256\n[[tables]]\nfiles = "*.txt"\n')
    words = list_words(report(directory))
    assert "with 256 clients" in words
    assert "under how many clients" not in words
    assert set(collect_imported_tables(load_campaign(directory))["levels"]["threads"]) == {256}


def test_rates_stand_beside_their_ratios(tmp_path: Path) -> None:
    document = report(bring(tmp_path, RATES))
    table = list_tables(document)["Queries per second by workload"]
    assert table.columns == ["workload", "glibc", "jemalloc", "jemalloc ÷ glibc"]
    assert table.rows == [["hot-points", "95,454", "96,409", "1.010"], ["scan", "30.5", "–", "–"]]
    assert [s.key for s in document.sections] == ["levels", "origin"]


def test_queries_without_transactions_have_levels_and_collapses(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for variant, seconds in (("glibc", 32.0), ("jemalloc", 8.0)):
        (runs / f"{variant}.log").write_text(mysqlslap(8, 4.0) + mysqlslap(16, seconds))
    (runs / "import.toml").write_text('files = "{variant}.log"\nworkload = "slap"\n')
    import_results([runs], tmp_path / "out")
    document = report(tmp_path / "out")
    assert document.answer.headline == "glibc collapses"
    tables = list_tables(document)
    assert tables["Queries per second, slap"].rows == [
        ["8", "2,000", "2,000", "0.0"],
        ["16", "500", "2,000", "+300"],
    ]
    shapes = tables["Peaks and collapses"]
    assert "queries/s there" in shapes.columns
    assert shapes.rows[0][:4] == ["slap", "glibc", "8", "2,000"]
    assert "transactions" not in list_words(document)


def test_results_relative_to_no_variant_of_theirs_are_damaged(tmp_path: Path) -> None:
    directory = bring(tmp_path, write_post())
    with closing(sqlite3.connect(directory / FILE)) as db, db:
        db.execute(
            "UPDATE campaign SET value = replace(value, 'glibc-malloc', 'other') "
            "WHERE key = 'imported'"
        )
    with pytest.raises(Failure, match=r"imported\.relative_to: 'other' is not in the results"):
        load_campaign(directory)
