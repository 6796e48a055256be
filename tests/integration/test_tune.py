"""``dballoc tune`` with real servers: search, kills and Ctrl-C on the way, confirmation,
deployment, and the proof that the winner took.
"""

import json
import os
import re
import signal
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from harness import (
    Cli,
    Done,
    Experiment,
    StartServer,
    processes_of,
    rows,
    thp_mode,
    wait_until,
)

from dballoc import catalogue

# glibc's knobs are left alone, and one option of the server is searched whose effect on memory
# nobody can miss.
OPTION = "performance_schema"
KNOBS = [name for name, row in catalogue.tunables()["glibc"]["settings"].items() if "search" in row]
COLUMNS = "SELECT trial, stage, base, origin, parameters FROM candidate"
SHIM = Path(str(files("dballoc") / "_native" / "libdballoc_keep_thp.so"))


# A search of ten minutes has room for one of them.
WORKLOADS = ["oltp_point_select", "oltp_read_only"]


@pytest.fixture
def file(tiny_experiment: Experiment) -> Path:
    return write_experiment(tiny_experiment, workloads=WORKLOADS)


def write_experiment(
    tiny_experiment: Experiment, searched: tuple[str, ...] = (), **changes: object
) -> Path:
    """Write an experiment whose search has the option and so many settings of glibc."""
    return tiny_experiment(
        variant=[{"name": "glibc", "tunables": {"arena_test": "3"}}],
        server={"options": {"innodb_buffer_pool_size": "32M", OPTION: "ON"}},
        tune={
            "aim": "rss, rss<=1",
            "space": {OPTION: ["OFF"]},
            "leave": [name for name in KNOBS if name not in searched],
            "presets": False,
            "thp": False,
            "design": "solo",
            "blocks": 3,
        },
        time={"warmup": "0s", "level": "2s"},
        **changes,
    )


def read_candidates(out: Path) -> list[dict[str, Any]]:
    return rows(out, COLUMNS) if (out / "results.sqlite").exists() else []


def test_it_finds_what_saves_memory_and_confirms_it(
    run_cli: Cli, file: Path, out: Path, home: Path, stock_server: StartServer
) -> None:
    flags = ("tune", file, "--out", out, "--budget", "10m", "--no-report")
    process = run_cli.start(*flags)
    wait_until(lambda: process.poll() is not None or len(read_candidates(out)) > 1, 170)
    os.kill(process.pid, signal.SIGKILL)
    run_cli.end(process)
    wait_until(lambda: not processes_of(home), 60)
    before = read_candidates(out)
    assert len(before) > 1
    [workloads] = rows(out, "SELECT value FROM campaign WHERE key = 'searched_workloads'")
    [searched] = json.loads(workloads["value"])

    done = run_cli(*flags)
    assert done.status == 0, done.text
    assert f"resuming: {len(before)} trials are finished already" in done.stdout
    candidates = read_candidates(out)
    assert candidates[: len(before)] == before
    assert [c["origin"] for c in candidates[:2]] == ["default"] * 2
    assert f"Use glibc with server.{OPTION} = OFF" in done.stdout, done.text

    report = run_cli("report", out, "--json")
    assert report.status == 0, report.text
    answer = json.loads(report.stdout)
    assert answer == json.loads((out / "tune.json").read_text())
    assert answer["over"]
    assert answer["settings"][f"server.{OPTION}"] == "OFF"
    [finalist] = [f for f in answer["finalists"] if f["confirmed"]]
    assert finalist["ratios"]["rss_peak"]["high"] < 0.99
    assert "search figures" in (out / "report.html").read_text()
    loaded = "SELECT DISTINCT workload FROM step WHERE kind = 'level'"
    for directory in (out, out / "confirmation" / "glibc"):
        assert [row["workload"] for row in rows(directory, loaded)] == [searched]
    assert "2 short starts show" not in done.stdout

    deployed = run_cli("deploy", out, "--form", "systemd")
    assert deployed.status == 0, deployed.text
    assert OPTION in deployed.stdout
    assert run_cli("deploy", out, "nobody").status == 2

    variables = dict(re.findall(r'Environment="?(\w+)=([^"\n]*)', deployed.stdout))
    assert "arena_test=3" in variables["GLIBC_TUNABLES"]
    pid, _ = stock_server(f"--{OPTION.replace('_', '-')}=OFF", **variables)
    verified = run_cli("verify", str(pid))
    assert verified.status == 0, verified.text
    assert f"settings: GLIBC_TUNABLES={variables['GLIBC_TUNABLES']}\n" in verified.stdout
    assert "warning" not in verified.stdout
    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_leaders_run_beside_their_default(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(
        design="both",
        variant=[{"name": "glibc"}],
        server={"options": {"innodb_buffer_pool_size": "32M", OPTION: "ON"}},
        tune={
            "aim": "rss, cpu<=9",
            "space": {OPTION: ["OFF"]},
            "leave": KNOBS,
            "presets": False,
            "thp": False,
            "replay": False,
            "blocks": 2,
        },
        duet={"slice": "0.2s", "pairs": 4},
        time={"warmup": "0s", "level": "2s"},
    )
    done = run_cli("tune", file, "--out", out, "--budget", "3m", "--no-report")
    assert done.status == 0, done.text
    assert "in a duet with the default: CPU × " in done.stdout
    duets = rows(
        out,
        "SELECT role, variant, design, block, outcome, parameters FROM trial LEFT JOIN candidate "
        "USING (trial) WHERE design = 'duet' ORDER BY block, role",
    )
    assert 2 <= len(duets) <= 4
    for default, leader in zip(duets[::2], duets[1::2], strict=True):
        assert (default["role"], default["variant"], default["parameters"]) == ("A1", "glibc", None)
        assert json.loads(leader["parameters"]) == {f"server.{OPTION}": "OFF"}
        assert default["block"] == leader["block"]
        assert (default["outcome"], leader["outcome"]) == ("ok", "ok")
    report = run_cli("report", out)
    assert report.status == 0, report.text
    assert "<td>duet</td>" in (out / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(os.geteuid() != 0, reason="switches a setting of the host")
@pytest.mark.skipif(not SHIM.exists() or not thp_mode(), reason="needs THP and the native parts")
def test_the_hosts_thp_mode_is_searched_and_put_back(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(
        variant=[{"name": "glibc"}],
        tune={
            "aim": "rss, cpu<=9",
            "leave": KNOBS,
            "presets": False,
            "replay": False,
            "design": "solo",
            "blocks": 2,
        },
        time={"warmup": "0s", "level": "2s"},
    )
    before = thp_mode()
    plan = run_cli("tune", file, "--out", out, "--dry-run")
    assert "knob:    glibc: host.thp: " in plan.stdout, plan.text
    alone = run_cli("tune", file, "--out", out, "--dry-run", "--no-thp")
    assert (
        alone.stderr == "dballoc: tune: there is nothing to set: glibc; see dballoc list settings\n"
    )
    done = run_cli("tune", file, "--out", out, "--budget", "90s", "--no-report")
    assert done.status == 0, done.text
    assert thp_mode() == before
    trials = rows(out, "SELECT thp, outcome, parameters FROM trial JOIN candidate USING (trial)")
    modes = {json.loads(t["parameters"]).get("host.thp"): t["thp"] for t in trials}
    own = before[before.index("[") + 1 : before.index("]")]
    assert {mode for mode in modes if mode} >= {"always", "never"} - {own}
    for mode, seen in modes.items():
        assert seen.startswith(mode or own)
    assert {t["outcome"] for t in trials} == {"ok"}


def interrupt_when(run_cli: Cli, flags: tuple[str | Path, ...], ready: Callable[[], bool]) -> Done:
    """Start a search, and press Ctrl-C once ``ready``."""
    process = run_cli.start(*flags)
    wait_until(lambda: process.poll() is not None or ready(), 170)
    os.killpg(process.pid, signal.SIGINT)
    done = run_cli.end(process)
    assert done.status == 130, done.text
    assert "interrupted; run the same command to resume" in done.text
    return done


@pytest.mark.slow
def test_ctrl_c_in_the_replays_on_servers_and_in_the_confirmation(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    flags = ("tune", write_experiment(tiny_experiment, ("arena_max",)), "--out", out)
    flags = (*flags, "--budget", "3m", "--replay", "--no-report")

    def count(stage: str) -> int:
        return sum(c["stage"] == stage for c in read_candidates(out))

    interrupt_when(run_cli, flags, lambda: count("replay") > 0)
    trace = out / "tiny-glibc.trace"
    assert trace.exists()
    first = read_candidates(out)
    assert (first[0]["stage"], first[0]["origin"]) == ("server", "default")
    recorded = trace.stat()

    interrupt_when(run_cli, flags, lambda: count("server") > 1)
    assert read_candidates(out)[: len(first)] == first
    assert trace.stat().st_mtime_ns == recorded.st_mtime_ns

    confirmation = out / "confirmation" / "glibc"

    def read_trials() -> list[dict[str, Any]]:
        there = (confirmation / "results.sqlite").exists()
        return rows(confirmation, "SELECT trial, directory FROM trial") if there else []

    interrupt_when(run_cli, flags, lambda: bool(read_trials()))
    searched, confirmed = read_candidates(out), read_trials()
    assert "The confirmation is not over" in run_cli("report", out).stdout

    done = run_cli(*flags)
    assert done.status == 0, done.text
    assert read_candidates(out) == searched
    assert read_trials()[: len(confirmed)] == confirmed
    assert f"server.{OPTION} = OFF" in done.stdout, done.text


@pytest.mark.slow
def test_a_search_from_a_trace_begins_with_replays(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, tmp_path: Path
) -> None:
    bench = tmp_path / "bench"
    done = run_cli(
        "bench", tiny_experiment(variant=[{"name": "glibc"}]), "--record", "--out", bench
    )
    assert done.status == 0, done.text
    [trace] = bench.glob("*.trace")
    file = write_experiment(tiny_experiment, ("arena_max",))
    plan = run_cli("tune", file, "--from", trace, "--out", out, "--dry-run")
    assert f"replay:  of {trace}\n" in plan.stdout, plan.text
    done = run_cli("tune", file, "--from", trace, "--out", out, "--budget", "1m", "--no-report")
    assert done.status == 0, done.text
    stages = [c["stage"] for c in read_candidates(out)]
    assert stages == sorted(stages)
    assert set(stages) == {"replay", "server"}


def test_what_it_refuses(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    for changes, flags, line in (
        (
            {"tune": {"leave": ["arena_mx"]}},
            (),
            "tune.leave: 'arena_mx' is not a setting of glibc, jemalloc",
        ),
        (
            {},
            ("--for", "memory,jemalloc:cpu<=1.01"),
            "--for: 'jemalloc:cpu<=1.01': a bound is for the configurations of every allocator; "
            "leave out 'jemalloc:', or search jemalloc alone",
        ),
        (
            {},
            ("--allocators", "rpmalloc"),
            None,
        ),
    ):  # fmt: skip
        refused = run_cli("tune", tiny_experiment(**changes), "--out", out, *flags)
        assert refused.status == 2, refused.text
        assert "Traceback" not in refused.text
        if line is not None:
            assert refused.stderr == f"dballoc: {line}\n"
        assert not out.exists() or not any(out.iterdir())
