"""What users do with results: compare them, deploy from them, read them by program; by the command
itself, with its exit status.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Cli, Experiment


@pytest.fixture(scope="module")
def results(run_cli: Cli, tiny_experiment: Experiment, fresh_directory) -> Iterator[Path]:
    """Two blocks of glibc and jemalloc under a real server."""
    place = fresh_directory()
    done = run_cli(
        "bench",
        tiny_experiment(blocks=2, threads=[1]),
        "--out",
        place / "r",
        "--prefer",
        "rss<=1.5",
    )
    assert done.status == 0, done.text
    # The console breaks the line.
    rule = "Rule: use a variant that is shown to be better by more than 1 % in memory and to keep to rss<=1.5"
    assert rule in " ".join(done.stdout.split())
    yield place / "r"
    shutil.rmtree(place)


def test_compare(run_cli: Cli, results: Path) -> None:
    done = run_cli("compare", results, results)
    assert done.status == 0, done.text
    assert "both are the same campaign" in done.stdout
    done = run_cli("compare", results, results, "--fail-if", "rss > 1000", "--strict")
    assert done.status == 0, done.text
    done = run_cli("compare", results, results, "--fail-if", "rss > 0.001", "--json")
    assert done.status == 1
    assert done.stderr.startswith("dballoc: --fail-if 'rss > 0.001': jemalloc 1.000 [")
    assert done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["failed"] is True


def test_what_cannot_be_compared_is_one_line_and_two(run_cli: Cli, results: Path) -> None:
    for words, line in (
        (
            (results, results.parent),
            f"{results.parent}: not a results directory of dballoc: no results.sqlite",
        ),
        ((results, results, "--fail-if", "rss"), "--fail-if: 'rss' is not a condition"),
        ((results,), "Missing argument"),
    ):
        done = run_cli("compare", *words)
        assert (done.status, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.text
        assert line in done.stderr


def test_deploy(run_cli: Cli, results: Path) -> None:
    done = run_cli("deploy", results, "jemalloc")
    assert done.status == 0, done.text
    assert 'Environment="LD_PRELOAD=/usr/lib' in done.stdout
    assert "Not on this machine" not in done.stdout
    done = run_cli("deploy", results, "hoard")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr == f"dballoc: {results}: no variant 'hoard'; there are glibc, jemalloc\n"


def test_the_recommendation_for_programs(run_cli: Cli, results: Path) -> None:
    done = run_cli("report", results, "--prefer", "speed", "--json")
    assert done.status == 0, done.text
    found = json.loads(done.stdout)
    assert (found["prefer"], found["final"], [c["variant"] for c in found["candidates"]]) == (
        "speed",
        True,
        ["glibc", "jemalloc"],
    )
    done = run_cli("report", results, "--prefer", "cheap")
    assert (done.status, done.stderr.count("\n")) == (2, 1)
