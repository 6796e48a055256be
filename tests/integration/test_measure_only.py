"""``bench --measure-only`` on real servers: without any package of the analysis it measures what
``bench`` does, writes no report, goes on only as it began, and is judged once, at home.
"""

import json
import os
from pathlib import Path

import pytest
from harness import Cli, Experiment, rows

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a duet needs two CPUs")

MISSING = ["polars", "numpy", "scipy", "altair", "vl_convert", "symbolic", "cffi", "zstandard"]
# All that is in results beside figures, and their number.
ORDERED = (
    "SELECT design, block, attempt FROM block ORDER BY design, block, attempt",
    "SELECT design, block, attempt, position, variant, role, outcome, thp, cpus, client_cpus "
    "FROM trial ORDER BY trial",
    "SELECT trial, step, kind, workload, threads FROM step ORDER BY trial, step",
    "SELECT trial, step FROM mark ORDER BY trial, step",
    "SELECT trial, workload, slice, half FROM slice GROUP BY trial, slice ORDER BY trial, slice",
    "SELECT trial, workload, round, place FROM turn ORDER BY trial, round",
    "SELECT DISTINCT trial FROM ledger ORDER BY trial",
    "SELECT trial, step FROM sample GROUP BY trial, step ORDER BY trial, step",
    "SELECT trial, step FROM interval GROUP BY trial, step ORDER BY trial, step",
    "SELECT trial, step FROM histogram GROUP BY trial, step ORDER BY trial, step",
    "SELECT trial, step FROM host_step ORDER BY trial, step",
    "SELECT * FROM variant ORDER BY name",
)
# Facts of a moment.
MOMENTARY = {"started", "ended", "environment", "measured_only"}


@pytest.fixture(scope="module")
def table(tiny_experiment: Experiment) -> Path:
    """An experiment of all three designs, whose slices and rounds do not depend on a pilot."""
    path = tiny_experiment(
        load={},
        duet={"slice": "500ms", "pairs": 2, "threads": 2},
        turns={"length": "250ms", "rounds": 3, "warmup": "250ms"},
        warmup_sql=[],
        seed=7,
    )
    path.write_text(path.read_text().replace('design = "solo"\n', ""))
    return path


@pytest.fixture(scope="module")
def measured(run_cli: Cli, table: Path, fresh_directory) -> Path:
    """Results of a dballoc that finds no package of the analysis."""
    hook, out = fresh_directory(), fresh_directory() / "r"
    (hook / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({MISSING!r}))\n"
    )
    paths = f"{hook}:{run_cli.env['PYTHONPATH']}"
    refused = run_cli("bench", table, "--out", out, env={"PYTHONPATH": paths})
    assert (refused.status, refused.stderr) == (
        2,
        "dballoc: dballoc bench needs more packages: pip install 'dballoc[bench]'\n",
    )
    done = run_cli("bench", "--measure-only", table, "--out", out, env={"PYTHONPATH": paths})
    assert (done.status, done.stderr) == (0, ""), done.text
    assert f"dballoc report {out}" in done.stdout
    return out


def test_its_trials_and_rows_are_those_of_a_judged_campaign(
    run_cli: Cli, table: Path, measured: Path, out: Path
) -> None:
    done = run_cli("bench", table, "--out", out)
    assert done.status == 0, done.text
    for query in ORDERED:
        expected = rows(out, query)
        assert expected
        assert rows(measured, query) == expected, query
    facts, judged = (
        {row["key"]: row["value"] for row in rows(of, "SELECT * FROM campaign")}
        for of in (measured, out)
    )
    assert set(facts) == set(judged)
    assert {k for k in facts if facts[k] != judged[k]} - MOMENTARY == set()
    assert json.loads(facts["measured_only"]) is True
    assert {row["outcome"] for row in rows(out, "SELECT outcome FROM trial")} == {"ok"}


def test_it_goes_on_as_it_began(run_cli: Cli, table: Path, measured: Path) -> None:
    refused = run_cli("bench", table, "--out", measured)
    assert refused.status == 2
    assert "begun with --measure-only; to go on, add --measure-only" in refused.stderr
    again = run_cli("bench", "--measure-only", table, "--out", measured)
    assert again.status == 0, again.text
    assert "all planned blocks are done" in again.stdout


def test_it_is_judged_at_home(run_cli: Cli, measured: Path) -> None:
    assert not (measured / "report.html").exists()
    done = run_cli("report", measured)
    assert done.status == 0, done.text
    text = (measured / "report.md").read_text(encoding="utf-8")
    assert "Measured only: not judged while it ran, so judged once, after 1 solo block" in text
    refused = run_cli("bench", "--out", measured, "--extend", "20m")
    assert refused.status == 2
    assert "judged once and never extended" in refused.stderr
