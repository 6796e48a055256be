"""Turns on real servers: one at a time has the machine, what is counted is what the clients ended,
a server that fails leaves the others to go on, and a kill leaves nobody stopped.
"""

import itertools
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, leftovers, processes_of, rows, wait_until

from dballoc.load.sysbench_command import lua
from dballoc.load.transaction_counter import COUNTER, TransactionCounter

TURNS = {"length": "250ms", "rounds": 3, "warmup": "250ms"}


@pytest.fixture(scope="module")
def campaign(run_cli: Cli, tiny_experiment: Experiment, fresh_directory) -> Path:
    """Two blocks of turns, with a report; run once for the tests here."""
    out = fresh_directory() / "r"
    noise = {"repeats": 0}
    table = tiny_experiment(design="turns", turns=TURNS, blocks=2, warmup_sql=[], noise=noise)
    done = run_cli("bench", table, "--out", out, "--report")
    assert done.status == 0, done.text
    assert "Traceback" not in done.text
    return out


def list_turns(out: Path) -> list[dict[str, Any]]:
    """Every turn that counts, with its server's place, and when it was since the epoch."""
    return rows(
        out,
        "SELECT trial.block, role, variant, round, place, transactions, seconds, started + t AS began"
        " FROM turn JOIN trial USING (trial) ORDER BY began",
    )


def test_every_server_has_a_turn_in_every_round(campaign: Path) -> None:
    faults = rows(campaign, "SELECT fault_text FROM trial WHERE outcome != 'ok'")
    assert faults == []
    turns = list_turns(campaign)
    members = {("glibc", "A1"), ("glibc", "A2"), ("jemalloc", "V")}
    for block, number in itertools.product((1, 2), range(3)):
        of_round = [t for t in turns if (t["block"], t["round"]) == (block, number)]
        assert {(t["variant"], t["role"]) for t in of_round} == members
        assert sorted(t["place"] for t in of_round) == [0, 1, 2]
    assert len(turns) == 18
    assert all(t["transactions"] > 0 for t in turns)


def test_one_server_at_a_time_has_the_machine(campaign: Path) -> None:
    turns = list_turns(campaign)
    for before, after in itertools.pairwise(turns):
        assert before["began"] + before["seconds"] < after["began"]


def test_the_report_judges_throughput_in_turns(campaign: Path) -> None:
    report = (campaign / "report.md").read_text(encoding="utf-8")
    assert "Throughput in turns" in report
    assert "A server had 3 turns that count in a block." in report
    assert (campaign / "csv" / "turns.csv").exists()


def test_a_server_that_fails_leaves_the_others_their_turns(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, fresh_directory
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler: apt-get install gcc libc6-dev")
    library = fresh_directory() / "libfaulty.so"
    source = Path(__file__).parent.parent / "native" / "faulty.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    variants = [
        {"name": "glibc"},
        {"name": "jemalloc", "allocator": "jemalloc"},
        {
            "name": "crashes",
            "allocator": "glibc",
            "preload": [str(library)],
            "env": {"FAULTY": "crash", "FAULTY_AFTER": "100000"},
        },
    ]
    table = tiny_experiment(
        design="turns", turns={**TURNS, "rounds": 20}, blocks=1, warmup_sql=[], variant=variants
    )
    done = run_cli("bench", table, "--out", out)
    assert done.status == 0, done.text
    outcomes = {
        (r["variant"], r["role"]): r["outcome"]
        for r in rows(out, "SELECT variant, role, outcome FROM trial WHERE attempt = 0")
    }
    assert outcomes == {
        ("glibc", "A1"): "ok",
        ("glibc", "A2"): "ok",
        ("jemalloc", "V"): "ok",
        ("crashes", "V"): "fault",
    }
    counts = rows(
        out, "SELECT variant, count(*) AS n FROM turn JOIN trial USING (trial) GROUP BY variant"
    )
    assert {r["variant"]: r["n"] for r in counts if r["variant"] != "crashes"} == {
        "glibc": 40,
        "jemalloc": 20,
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_who_is_stopped_ends_with_dballoc(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path, number: signal.Signals
) -> None:
    table = tiny_experiment(design="turns", turns={**TURNS, "rounds": 500}, warmup_sql=[])
    process = run_cli.start("bench", table, "--out", out)
    wait_until(lambda: count_stopped(home) >= 2 or process.poll() is not None)
    assert process.poll() is None, run_cli.end(process).text
    process.send_signal(number)
    done = run_cli.end(process)
    assert done.status == (130 if number == signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: not leftovers(home), 30)


def count_stopped(home: Path) -> int:
    """How many of our servers are stopped."""
    stopped = 0
    for pid, words in processes_of(home).items():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        stopped += state == "T" and "--datadir=" in words
    return stopped


def test_the_counter_has_what_sysbench_counts(tmp_path: Path) -> None:
    script = tmp_path / "nothing.lua"
    script.write_text("function event()\n  return false\nend\n")
    counter = TransactionCounter(3)
    descriptor = os.open(counter.path, os.O_RDWR)
    try:
        done = subprocess.run(
            ["sysbench", lua() / "dballoc.lua", "run", "--threads=3", "--events=1234", "--time=0"],
            env=os.environ
            | {
                "DBALLOC_SCRIPT": str(script),
                "DBALLOC_INTERVALS": str(tmp_path / "intervals"),
                COUNTER: str(descriptor),
            },
            pass_fds=[descriptor],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert counter.read_total() == 1234
    finally:
        os.close(descriptor)
        counter.close()
