"""`scaling`, small, on this machine's CPUs: real servers on one CPU and on two, each number with an
answer of its own.
"""

import json
from pathlib import Path

import pytest
from harness import Cli, rows

from dballoc.experiment.cpu_list import parse_cpus

SMALL = (
    "--experiment", "scaling", "--cpus", "1,2", "--allocators", "glibc,jemalloc",
    "--scale", "0.1", "--threads", "8,16", "--level", "2s",
    "--repeat-noisy", "0", "--blocks", "1",
)  # fmt: skip


@pytest.fixture(scope="module")
def campaign(run_cli: Cli, fresh_directory) -> Path:
    """One solo block, with a report; run once for the tests here."""
    out = fresh_directory() / "r"
    done = run_cli("bench", *SMALL, "--out", out, "--report")
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    assert "On 1 CPU: " in done.text
    # For all variants on both numbers; not at all where an earlier run left them in the cache.
    assert done.text.count("making the data") <= 1
    assert "How throughput grows with CPUs" in done.text
    return out


def test_each_server_has_its_number_of_cpus(campaign: Path) -> None:
    trials = rows(campaign, "SELECT variant, role, outcome FROM trial")
    assert {trial["outcome"] for trial in trials} == {"ok"}
    of_block = {
        ("glibc_1cpu", "A1"), ("glibc_1cpu", "A2"), ("jemalloc_1cpu", "V"),
        ("glibc_2cpu", "A1"), ("glibc_2cpu", "A2"), ("jemalloc_2cpu", "V"),
    }  # fmt: skip
    assert {(trial["variant"], trial["role"]) for trial in trials} == of_block
    assert len(trials) == len(of_block)
    placed = rows(campaign, "SELECT DISTINCT variant, cpus FROM trial")
    widths = {row["variant"]: len(parse_cpus(row["cpus"])) for row in placed}
    assert widths == {"glibc_1cpu": 1, "jemalloc_1cpu": 1, "glibc_2cpu": 2, "jemalloc_2cpu": 2}


def test_the_report_answers_for_each_number(campaign: Path) -> None:
    answer = json.loads((campaign / "recommendation.json").read_text())
    assert [part["cpus"] for part in answer["by_cpus"]] == [1, 2]
    assert [part["baseline"] for part in answer["by_cpus"]] == ["glibc_1cpu", "glibc_2cpu"]
    for part in answer["by_cpus"]:
        assert part["headline"]
        assert f"n {part['cpus']} CPU" in answer["headline"]
    page = (campaign / "report.html").read_text()
    for title in ("Verdicts on 1 CPU", "Verdicts on 2 CPUs", "How throughput grows with CPUs"):
        assert title in page
    lines = (campaign / "csv" / "cpus.csv").read_text().splitlines()
    assert [line.split(",")[1:3] for line in lines[1:]] == [
        ["glibc", "1"], ["glibc", "2"], ["jemalloc", "1"], ["jemalloc", "2"],
    ]  # fmt: skip


@pytest.mark.slow
def test_turns_go_round_within_a_number(run_cli: Cli, fresh_directory) -> None:
    out = fresh_directory() / "r"
    done = run_cli("bench", *SMALL, "--design", "turns", "--out", out, "--report")
    assert done.status == 0, done.text
    members = rows(
        out,
        "SELECT DISTINCT position, variant, role FROM trial JOIN turn USING (trial)"
        " WHERE outcome = 'ok' ORDER BY position, variant, role",
    )
    by_rotation: dict[int, set[tuple[str, str]]] = {}
    for row in members:
        by_rotation.setdefault(row["position"], set()).add((row["variant"], row["role"]))
    assert sorted(map(sorted, by_rotation.values())) == [
        [("glibc_1cpu", "A1"), ("glibc_1cpu", "A2"), ("jemalloc_1cpu", "V")],
        [("glibc_2cpu", "A1"), ("glibc_2cpu", "A2"), ("jemalloc_2cpu", "V")],
    ]
