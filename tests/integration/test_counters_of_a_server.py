"""Counts of a real server in both designs. Software events, which every host counts: hardware ones
are as many rows of the same form.
"""

import json
import os
from pathlib import Path

import polars as pl
import pytest
from harness import Cli, Experiment, rows

from dballoc.instruments.server_counters import find_countable
from dballoc.questions.campaign.figures.counters import build_counter_table
from dballoc.questions.compare.campaign_tables import load_campaign

EVENTS = ["task-clock", "page-faults", "context-switches"]
countable = find_countable(EVENTS)

pytestmark = pytest.mark.skipif(not countable.events, reason=countable.refusal)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a duet needs two CPUs")
def test_both_designs_count_the_server(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(
        design="both",
        counters=EVENTS,
        duet={"slice": "500ms", "pairs": 2, "threads": 2, "warmup": "500ms"},
        warmup_sql=[],
        time={"idle": "0s"},
        variant=[{"name": "glibc"}],
    )
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    # The kernel's own clock of all threads is the process's CPU time, which is read by other means.
    for row in rows(
        out,
        "SELECT sum(count) / 1e9 AS counted, sum(cpu) AS cpu, min(running) AS running FROM "
        "slice_counter JOIN slice USING (trial, workload, slice, piece) "
        "WHERE event = 'task-clock' GROUP BY trial",
    ):
        assert row["counted"] == pytest.approx(row["cpu"], rel=0.1)
        assert row["running"] == 1.0
    levels = rows(
        out,
        "SELECT count / 1e9 AS counted, cpu FROM step_counter JOIN step USING (trial, step) "
        "WHERE event = 'task-clock'",
    )
    assert len(levels) == 2  # A1 and A2
    # Counts at a window's ends lie between readings a second apart, in which a busy machine's server
    # does not work evenly; here that second is half of the level.
    for row in levels:
        assert row["counted"] == pytest.approx(row["cpu"], rel=0.5)
    pieces = rows(out, "SELECT count(*) AS n FROM slice")[0]["n"]
    assert rows(out, "SELECT count(*) AS n FROM slice_counter")[0]["n"] == len(EVENTS) * pieces
    facts = {row["key"]: row["value"] for row in rows(out, "SELECT * FROM campaign")}
    assert json.loads(facts["counters"]) == {"events": EVENTS, "refusal": ""}
    table = build_counter_table(load_campaign(out))
    clocks = table.filter(pl.col("event") == "task-clock").sort("design")
    assert clocks["design"].to_list() == ["duet", "solo"]
    assert all(0.1 < ratio < 10 for ratio in clocks["ratio"])
