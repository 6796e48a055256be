"""TPC-C by HammerDB: the scripts in a real Tcl, against a real server, in front of a stand-in
(hammerdbcli.tcl).
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from harness import Cli, Experiment, rows, wait_until

GLIBC = [{"name": "glibc"}]
SMALL = {
    "workloads": ["tpcc"],
    "load": {"options": {"warehouses": "2"}},
    "variant": GLIBC,
    "time": {"idle": "0s"},
}


@pytest.fixture(scope="module")
def installed(home: Path) -> dict[str, str]:
    """HammerDB, or what stands for it, on the PATH: the environment."""
    if not (tclsh := shutil.which("tclsh")):
        pytest.skip("needs tclsh: run make packages-test")
    directory = home / "HammerDB-4.12"
    (directory / "modules").mkdir(parents=True)
    executable = directory / "hammerdbcli"
    executable.write_text(f"#!{tclsh}\n" + Path(__file__).with_name("hammerdbcli.tcl").read_text())
    executable.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


@pytest.mark.slow
def test_a_campaign(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, installed: dict[str, str]
) -> None:
    file_ = tiny_experiment(**SMALL, threads=[2, 3])
    done = run_cli("bench", file_, "--out", out, "--report", env=installed)
    assert done.status == 0, done.text
    levels = rows(out, "SELECT * FROM step WHERE kind = 'level' ORDER BY trial, step")
    assert [r["threads"] for r in levels] == [2, 3, 2, 3]
    for row in levels:
        # The stand-in's client commits once and rolls back once a turn, with one update and one
        # read.
        assert row["events"] > 50
        assert row["queries"] == pytest.approx(3 * row["events"], rel=0.02)
        assert row["seconds"] < 2 + 10
        assert (row["p99"], row["latency_avg"], row["errors"]) == (None, None, 0)
    for r in rows(out, "SELECT * FROM interval"):
        assert r["latency"] is None
        assert r["seconds"] == pytest.approx(1, abs=0.3)
    printed = [p.read_text() for p in (out / "trials").glob("*/hammerdb-*level*.txt")]
    assert printed
    assert all("NOPM and" in text for text in printed)
    page = (out / "report.html").read_text()
    assert "hammerdbcli" in page
    assert "TPROC-C" in page
    # There is nothing to draw of response times, and no empty chart for them.
    assert list((out / "charts").glob("tps-tpcc*"))
    assert not list((out / "charts").glob("p9*"))
    # What began with it does not go on without it.
    again = run_cli("bench", file_, "--out", out)
    assert again.status == 2, again.text
    assert "changed since its trials ran" in again.stderr


def test_a_duet(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, installed: dict[str, str]
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a duet needs two CPUs")
    duet = {"warmup": "1s", "slice": "1s", "pairs": 2, "threads": 8}
    file_ = tiny_experiment(**{**SMALL, "design": "duet"}, duet=duet)
    done = run_cli("bench", file_, "--out", out, env=installed)
    assert done.status == 0, done.text
    assert rows(out, "SELECT outcome FROM trial WHERE outcome != 'ok'") == []


@pytest.fixture
def mode(installed: dict[str, str]) -> Iterator[Callable[[str], None]]:
    """``mode("fail")``: how the stand-in goes about it, for this test."""
    directory = Path(installed["PATH"].partition(":")[0])
    made: list[Path] = []

    def choose(name: str) -> None:
        (directory / name).touch()
        made.append(directory / name)

    yield choose
    for path in made:
        path.unlink()


Mode = Callable[[str], None]


def test_data_that_it_cannot_make(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, installed: dict[str, str], mode: Mode
) -> None:
    mode("fail")
    file_ = tiny_experiment(**{**SMALL, "load": {"options": {"warehouses": "5"}}})
    done = run_cli("bench", file_, "--out", out, env=installed)
    assert done.status == 2, done.text
    assert done.stderr.startswith(
        "dballoc: workload 'tpcc': Error in Virtual User 1: mysqlconnect/db server: Access denied"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_clients_that_do_nothing_are_a_fault(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, installed: dict[str, str], mode: Mode
) -> None:
    mode("idle")
    done = run_cli("bench", tiny_experiment(**SMALL), "--out", out, env=installed)
    assert done.status == 1, done.text
    faults = rows(out, "SELECT fault, fault_text FROM trial")
    assert [f["fault"] for f in faults] == ["client"] * len(faults)
    assert (
        "2 of HammerDB's 2 clients were connected and did nothing after 45 s"
        in faults[0]["fault_text"]
    )


def test_nothing_of_it_is_left_when_dballoc_is_killed(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, installed: dict[str, str]
) -> None:
    file_ = tiny_experiment(**{**SMALL, "time": {"idle": "0s", "level": "60s"}})
    process = run_cli.start("bench", file_, "--out", out, env=installed)
    wait_until(
        lambda: bool(_stand_ins()) and bool(list((out / "trials").glob("*/intervals-01-level*"))),
        60,
    )
    process.kill()
    run_cli.end(process)
    wait_until(lambda: not _stand_ins(), 20)


def _stand_ins() -> list[psutil.Process]:
    """Every hammerdbcli, and every client that it started."""
    found = [
        p
        for p in psutil.process_iter(["cmdline"])
        if any("hammerdbcli" in w for w in p.info["cmdline"] or [])
    ]
    return [q for p in found for q in (p, *_children(p))]


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []
