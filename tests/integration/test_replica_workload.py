"""A replica under load: what is measured, what stops it, and whose fault that is."""

import os
import re
import signal
from pathlib import Path

from harness import Cli, Experiment, leftovers, processes_of, rows, wait_until

GLIBC = [{"name": "glibc"}]


def find_primary(home: Path) -> int | None:
    """The primary, once a client loads it."""
    found = processes_of(home)
    if not any("sysbench" in words and " run" in words for words in found.values()):
        return None
    return next((pid for pid, words in found.items() if "--log-bin=" in words), None)


def test_a_replica_is_measured(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    file_ = tiny_experiment(
        workloads=["replica"], replica={"workers": 2}, server={"connect": "tls"}
    )
    process = run_cli.start("bench", file_, "--out", out)
    primary = wait_until(lambda: find_primary(run_cli.home))
    maps = Path(f"/proc/{primary}/maps").read_text()
    assert "--ssl-cert=" in Path(f"/proc/{primary}/cmdline").read_text()
    done = run_cli.end(process)
    assert done.status == 0, done.text
    # The malloc of a variant is the replica's alone.
    assert "jemalloc" not in maps
    trials = rows(out, "SELECT * FROM trial")
    assert [(t["outcome"], t["fault_text"]) for t in trials] == [("ok", None)] * 3
    # The clients are at the primary.
    assert rows(out, "SELECT * FROM client_connection") == []
    levels = rows(out, "SELECT * FROM step JOIN replica USING (trial, step) WHERE kind = 'level'")
    assert len(levels) == 3
    for level in levels:
        assert level["events"] > 0  # how many depends on what else runs
        assert level["tps"] <= level["primary_tps"] * 1.01
        assert level["left_behind"] == 0, "a minute is enough for what two seconds leave"
        assert level["cpu"] > 0
        assert level["latency_avg"] is None
    for trial in trials:
        raw = out / "trials" / trial["directory"]
        status = (raw / "status-01-after.tsv").read_text()
        sql = next((raw / f).read_text() for f in os.listdir(raw) if f.startswith("status-02"))
        assert re.search(r"^Slave_running\tON$", status + sql, re.MULTILINE)
        variables = (raw / "variables.tsv").read_text()
        assert "slave_parallel_threads\t2\n" in variables
        assert (raw / "primary.log").exists()
    done = run_cli("report", out)
    assert done.status == 0, done.text
    assert "## Replica\n" in (out / "report.md").read_text()
    assert (out / "csv" / "replicas.csv").read_text().count("\n") == 3


def test_what_stops_a_replica_is_its_fault(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    # The statement goes to the replica, which then lacks the table that its primary's clients fill.
    file_ = tiny_experiment(
        workloads=["replica"], variant=GLIBC, warmup_sql=["DROP TABLE sbtest1"], blocks=1
    )
    run_cli("bench", file_, "--out", out)
    trials = rows(out, "SELECT * FROM trial")
    assert {t["fault"] for t in trials} == {"replication"}
    for trial in trials:
        assert re.search(
            r"level replica 2: replication stopped: .*sbtest1' doesn't exist.*\(error 1146\)",
            trial["fault_text"],
        ), trial["fault_text"]


def test_a_primary_that_dies_is_nobodys_fault(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path
) -> None:
    file_ = tiny_experiment(workloads=["replica"], variant=GLIBC, time={"level": "20s"})
    process = run_cli.start("bench", file_, "--out", out)
    os.kill(wait_until(lambda: find_primary(home)), signal.SIGKILL)
    done = run_cli.end(process)
    assert done.status == 1, done.text
    assert re.search(
        r"^dballoc: the replica's primary died at level replica 2 \(SIGKILL\): .*no variant is at "
        r"fault, and the trial under way is lost; the same command resumes$",
        done.stderr,
        re.MULTILINE,
    ), done.stderr
    assert rows(out, "SELECT * FROM trial") == []
    assert leftovers(home) == []


def test_a_duet_of_replicas_is_refused(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    done = run_cli("bench", tiny_experiment(workloads=["replica"], design="duet"), "--out", out)
    assert done.status == 2, done.text
    assert done.stderr.startswith("dballoc: replica: a duet loads both servers at once, but a ")
    assert done.stderr.count("\n") == 1
