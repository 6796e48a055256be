"""``dballoc tune`` with real servers: search, a kill on the way, confirmation, deployment."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, processes_of, rows, wait_until

from dballoc import catalogue

# glibc's knobs are left alone, and one option of the server is searched whose effect on memory
# nobody can miss.
OPTION = "performance_schema"
KNOBS = [name for name, row in catalogue.tunables()["glibc"]["settings"].items() if "search" in row]
COLUMNS = "SELECT trial, stage, base, origin, parameters FROM candidate"


@pytest.fixture
def file(tiny_experiment: Experiment) -> Path:
    return tiny_experiment(
        variant=[{"name": "glibc"}],
        server={"options": {"innodb_buffer_pool_size": "32M", OPTION: "ON"}},
        tune={
            "aim": "rss, rss<=1",
            "space": {OPTION: ["OFF"]},
            "leave": KNOBS,
            "presets": False,
            "design": "solo",
            "blocks": 3,
        },
        time={"warmup": "0s", "level": "2s"},
    )


def read_candidates(out: Path) -> list[dict[str, Any]]:
    return rows(out, COLUMNS) if (out / "results.sqlite").exists() else []


def test_it_finds_what_saves_memory_and_confirms_it(
    run_cli: Cli, file: Path, out: Path, home: Path
) -> None:
    flags = ("tune", file, "--out", out, "--budget", "10m", "--no-report")
    process = run_cli.start(*flags)
    wait_until(lambda: process.poll() is not None or len(read_candidates(out)) > 1, 170)
    os.kill(process.pid, signal.SIGKILL)
    run_cli.end(process)
    wait_until(lambda: not processes_of(home), 60)
    before = read_candidates(out)
    assert len(before) > 1

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

    deployed = run_cli("deploy", out, "--form", "systemd")
    assert deployed.status == 0, deployed.text
    assert OPTION in deployed.stdout
    assert run_cli("deploy", out, "nobody").status == 2


def test_what_it_refuses(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    for changes, flags, line in (
        (
            {"tune": {"leave": ["arena_mx"]}},
            (),
            "tune.leave: 'arena_mx' is not a setting of glibc, jemalloc",
        ),
        ({}, ("--for", "thrift"), "--for: 'thrift' is not memory, speed, or a condition such as 'p99<=1.05'"),
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
