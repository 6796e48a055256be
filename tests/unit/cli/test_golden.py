"""Figures of real results, saved snapshots and a profile (tests/data/golden) stay as they were.

Numbers are compared, words are not: those may be said better.
"""

import csv
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dballoc.cli.verb_list import application
from dballoc.store.open_database import FORMAT
from dballoc.store.rows import TABLES

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
EXPECTED = GOLDEN / "expected"
PROFILE = "results/trials/b001-p003-jemalloc/heap/heap-oltp_read_only.profile.json.gz"


def run(*words: object) -> str:
    """What a command prints; it has to succeed."""
    result = CliRunner().invoke(application([str(words[0])]), list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.stdout


def as_number(cell: str) -> str | float:
    """A cell of CSV to nine digits: polars adds up in no promised order. What a verdict says in
    brackets is words.
    """
    try:
        return float(f"{float(cell):.9g}")
    except ValueError:
        return cell.partition(" (")[0]


def read_table(path: Path) -> list[list[str | float]]:
    """The header and the rows of a CSV file, these sorted: groups come in no promised order."""
    with path.open() as file:
        header, *rows = [[as_number(cell) for cell in row] for row in csv.reader(file)]
    return [header, *sorted(rows, key=str)]


def add_columns(path: Path) -> None:
    """Add the columns that are declared by now; what is measured since then has no values there."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA legacy_alter_table = ON")
        for name, table in TABLES.items():
            names = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
            if names == [column.name for column in table.list_stored()]:
                continue
            db.execute(f"ALTER TABLE {name} RENAME TO before")
            db.execute(table.make_schema())
            both = ", ".join(c.name for c in table.list_stored() if c.name in names)
            db.execute(f"INSERT INTO {name} ({both}) SELECT {both} FROM before")
            db.execute("DROP TABLE before")
        db.execute("UPDATE campaign SET value = ? WHERE key = 'format'", [str(FORMAT)])


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden results with a report made by this version."""
    directory = tmp_path_factory.mktemp("golden") / "results"
    shutil.copytree(GOLDEN / "results", directory)
    add_columns(directory / "results.sqlite")
    run("report", directory)
    return directory


@pytest.mark.parametrize("name", sorted(path.name for path in (EXPECTED / "csv").iterdir()))
def test_a_table_of_a_report(report: Path, name: str) -> None:
    before, after = read_table(EXPECTED / "csv" / name), read_table(report / "csv" / name)
    for row, expected in zip(after, before, strict=True):
        assert row == [
            cell if isinstance(cell, str) else pytest.approx(cell, rel=1e-7) for cell in expected
        ]


def test_no_table_of_a_report_is_left_out(report: Path) -> None:
    assert len(list((EXPECTED / "csv").iterdir())) > 10
    names = {path.name for path in (EXPECTED / "csv").iterdir()}
    assert names <= {path.name for path in (report / "csv").iterdir()}


def test_the_recommendation(report: Path) -> None:
    before = json.loads((EXPECTED / "recommendation.json").read_text())
    after = json.loads((report / "recommendation.json").read_text())
    assert before.keys() <= after.keys()
    for key in ("format", "experiment", "prefer", "recommended", "tie", "final", "blocks"):
        assert after[key] == before[key]


def numbers(value: Any) -> Any:
    """A JSON value without its texts."""
    if isinstance(value, dict):
        return {key: numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [numbers(inner) for inner in value]
    return "" if isinstance(value, str) else value


def select_known(value: Any, old: Any) -> Any:
    """A JSON value with the keys alone that it had of old."""
    if isinstance(old, dict):
        return {key: select_known(value[key], inner) for key, inner in old.items()}
    if isinstance(old, list) and len(old) == len(value):
        return [select_known(*pair) for pair in zip(value, old, strict=True)]
    return value


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("saved", ["--from", "saved.json.gz"]),
        ("series", ["--from", "series.jsonl.gz"]),
        ("diff", ["--diff", "saved.json.gz", "saved-later.json.gz"]),
    ],
)
def test_saved_snapshots(name: str, words: list[str]) -> None:
    paths = [str(GOLDEN / word) if word.endswith(".gz") else word for word in words]
    after = json.loads(run("explain", *paths, "--json"))
    before = json.loads((EXPECTED / f"{name}.json").read_text())
    # Keys that were added since are new, and nothing else.
    assert numbers(select_known(after, before)) == numbers(before)
    if name != "diff":
        owners = [(line["group"], line["owner"], line["resident"]) for line in before["lines"]]
        assert [(x["group"], x["owner"], x["resident"]) for x in after["lines"]] == owners


def test_a_profile(tmp_path: Path) -> None:
    profile = shutil.copy(GOLDEN / PROFILE, tmp_path)
    run("profile", "export", profile, "--format", "collapsed")
    after = Path(profile.replace(".profile.json.gz", ".collapsed")).read_text()
    assert after == (EXPECTED / "profile.collapsed").read_text()
