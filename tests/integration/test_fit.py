"""``dballoc fit`` on a real server in a real memory cgroup."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, processes_of, rows, wait_until

from dballoc.ground.errors import UsageError
from dballoc.host.resources import cgroup
from dballoc.trace.model import Mark
from dballoc.trace.trace_file.write_trace import write_trace
from example_traces import make_trace

MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def _cgroups() -> None:
    try:
        cgroup.check_memory_cgroup()
    except UsageError as error:
        pytest.skip(f"needs a memory cgroup of its own: {error}")
    if os.geteuid() != 0:
        pytest.skip("needs root: a server's memory is limited")


@pytest.fixture(scope="module")
def fit(run_cli: Cli, tiny_experiment: Experiment) -> Callable[..., Any]:
    """``fit(out, "--flag", …)`` starts it in 224 MiB, with data that fill any pool of these."""
    file = tiny_experiment(
        variant=[{"name": "glibc"}],
        data={"tables": 2, "rows": 400_000},
        time={"idle": "0s"},
        limits={"memory": "224M"},
        fit={"tolerance": "32M"},
    )

    def start(out: Path, *more: str) -> Any:
        return run_cli.start("fit", file, "--out", out, *more)

    return start


def test_the_load_of_the_tables_may_be_what_fills_the_cache(run_cli: Cli, fit, out: Path) -> None:
    # One trial: the next one would not fit into the time.
    flags = ("--workloads", "load", "--rows", "20000", "--budget", "1s", "--no-report")
    done = run_cli.end(fit(out, *flags))
    assert done.status == 0, done.text
    [trial] = rows(out, "SELECT outcome, fault FROM trial")
    assert trial == {"outcome": "ok", "fault": None}
    [level] = rows(out, "SELECT workload, events FROM step WHERE kind = 'level'")
    assert level == {"workload": "load", "events": 40_000}


def test_it_finds_the_edge_and_can_be_stopped_on_the_way(
    run_cli: Cli, fit, out: Path, home: Path
) -> None:
    process = fit(out, "--no-report")
    wait_until(
        lambda: (
            process.poll() is not None
            or ((out / "results.sqlite").exists() and rows(out, "SELECT * FROM trial"))
        ),
        170,
    )
    os.kill(process.pid, signal.SIGKILL)
    run_cli.end(process)
    wait_until(lambda: not processes_of(home), 30)
    before = rows(out, "SELECT * FROM probe")
    assert before

    done = run_cli.end(fit(out, "--json"))
    assert done.status == 0, done.text
    assert f"resuming: {len(before)} trials are finished already" in done.stderr
    assert rows(out, "SELECT * FROM probe")[: len(before)] == before
    found = json.loads(done.stdout)
    assert found["over"]
    [glibc] = found["variants"]
    assert glibc["search"] == "found", done.text
    assert glibc["smallest_killed"] - glibc["largest"] == 32 * MIB
    # The pool was full, and something is beside it.
    assert glibc["filled"]
    assert glibc["largest"] < glibc["peak_rss"] < 224 * MIB
    assert glibc["rss_at_kill"] is not None

    trials = rows(
        out,
        "SELECT asked, probe.pool_bytes AS had, outcome, fault, rss_peak, exit_status FROM trial JOIN probe USING (trial)",
    )
    assert {t["fault"] for t in trials if t["outcome"] == "fault"} == {"oom"}
    assert all(t["outcome"] == "ok" for t in trials if t["asked"] <= glibc["largest"])
    assert all(t["exit_status"] == -9 for t in trials if t["asked"] >= glibc["smallest_killed"])
    assert [t["had"] for t in trials if t["outcome"] == "ok"] == [
        t["asked"] for t in trials if t["outcome"] == "ok"
    ]
    assert len([t for t in trials if t["asked"] == glibc["largest"]]) == 2, (
        "the answer has its repeat"
    )

    assert "survives up to" in (out / "report.html").read_text()
    assert json.loads((out / "fit.json").read_text()) == found
    again = run_cli("report", out)
    assert again.status == 0, again.text
    assert "survives up to" in again.stdout
    assert (
        run_cli("compare", out, out).stderr
        == f"dballoc: {out}: results of dballoc fit; dballoc report shows them\n"
    )


def test_what_it_refuses(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    for flags, line in (
        (
            ("--engine", "aria", "--memory", "300M"),
            "variant 'glibc': fit does not know the cache of engine 'aria'; it supports innodb and rocksdb",
        ),
    ):
        done = run_cli("fit", tiny_experiment(), *flags, "--out", out)
        assert (done.status, done.stderr) == (2, f"dballoc: {line}\n")
        assert not out.exists()


def test_a_dry_run_says_the_most(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    done = run_cli(
        "fit",
        tiny_experiment(),
        "--memory",
        "512M",
        "--tolerance",
        "32M",
        "--dry-run",
        "--out",
        out,
    )
    assert done.status == 0, done.text
    assert "sizes:   multiples of 32M up to it, 256M first" in done.stdout
    assert "trials:  34 at most" in done.stdout
    assert not out.exists()


def test_a_trace_gives_each_mallocs_first_size(run_cli: Cli, fit, out: Path) -> None:
    """A trace whose heap is known: the first trial has what it leaves of the memory, and a resume
    does not replay it again.
    """
    trace = out.with_name("small.trace")
    full = {"rss": 150 * MIB, "heap": 30 * MIB, "pool": 100 * MIB}
    made = make_trace(2, 4000)
    write_trace(replace(made, marks=(Mark(time=0, name="full", truth=full),)), trace)
    flags = ("--from", trace, "--budget", "1s", "--no-report")
    done = run_cli.end(fit(out, *flags))
    assert done.status == 0, done.text
    assert "and 20.0 MiB beside heap and cache; first size about" in " ".join(done.text.split())
    [kept] = rows(out, "SELECT value FROM campaign WHERE key = 'starts'")
    start = json.loads(kept["value"])["glibc"]
    # What is left of 224 MiB, in steps of 32.
    assert 180 * MIB < start < 204 * MIB
    asked = [row["asked"] for row in rows(out, "SELECT asked FROM probe")]
    assert asked[0] == start // (32 * MIB) * 32 * MIB
    again = run_cli.end(fit(out, *flags))
    assert again.status == 0, again.text
    assert "the replay takes" not in again.text
    both = run_cli.end(fit(out, "--from", trace, "--start", "64M"))
    assert both.status == 2
    assert "give either start or guess" in both.text
