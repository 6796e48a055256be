"""A thousand clients of real servers, on CPUs apart from the server's and beside it; data that are
made once for all numbers of CPUs.
"""

import os
from pathlib import Path

import pytest
from harness import Cli, Experiment, rows

from dballoc.experiment.cpu_list import format_cpus, parse_cpus

CPUS = os.sched_getaffinity(0)
CLIENTS = 1024


@pytest.mark.slow
@pytest.mark.skipif(len(CPUS) < 2, reason="clients apart need a second CPU")
def test_a_thousand_clients_with_one_cpu_and_with_all(
    run_cli: Cli, tiny_experiment: Experiment, fresh_directory
) -> None:
    out: Path = fresh_directory() / "r"
    table = tiny_experiment(
        design="solo",
        blocks=1,
        baseline="one",
        workloads=["oltp_point_select"],
        threads=[CLIENTS],
        load={"prepared_statements": True},
        warmup_sql=[],
        noise={"repeats": 0},
        time={"warmup": "0s", "level": "2s", "idle": "0s"},
        variant=[
            {"name": "one", "cpu": {"count": 1, "client": "apart"}},
            {"name": "all", "cpu": {"count": len(CPUS), "client": "apart"}},
        ],
    )
    done = run_cli("bench", table, "--out", out, "--report")
    assert done.status == 0, done.text
    assert done.text.count("making the data") <= 1
    assert (
        f"all: clients beside the server: the server has {len(CPUS)} CPUs, its clients need as "
        "many on other cores, and those have 0"
    ) in " ".join(done.text.split())
    trials = rows(out, "SELECT variant, outcome, fault_text, cpus, client_cpus FROM trial")
    assert {t["variant"]: t["fault_text"] for t in trials} == {"one": None, "all": None}
    assert {t["outcome"] for t in trials} == {"ok"}
    for trial in trials:
        server, clients = parse_cpus(trial["cpus"]), parse_cpus(trial["client_cpus"])
        if trial["variant"] == "one":
            assert (len(server), len(clients)) == (1, 1)
            assert not server & clients
        else:
            assert server == clients == CPUS
    [level] = rows(out, "SELECT min(threads) AS threads, min(events) AS events, sum(errors) AS errors"
                   " FROM step WHERE kind = 'level'")  # fmt: skip
    assert level["threads"] == CLIENTS
    assert level["events"] > CLIENTS
    assert level["errors"] == 0
    most = rows(out, "SELECT max(threads) AS threads FROM sample GROUP BY trial")
    assert all(CLIENTS < t["threads"] < CLIENTS + 150 for t in most)
    report = (out / "report.md").read_text(encoding="utf-8")
    assert f"{format_cpus(CPUS)} (beside the server: too few others)" in report
