"""Experiments for tests that need no server, and programs to look into."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dballoc.experiment.model import Experiment

MakeExperiment = Callable[..., Experiment]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip what `make quick` (tools/quick) has no time for."""
    if time.monotonic() > float(os.environ.get("DBALLOC_TESTS_UNTIL", "inf")):
        pytest.skip("not reached within the time of make quick")


@pytest.fixture(scope="session")
def experiment() -> MakeExperiment:
    """``experiment(threads=[1], …)``: a small valid experiment with these keys changed."""

    def make(**changes: Any) -> Experiment:
        table: dict[str, Any] = {
            "name": "small",
            "baseline": "glibc",
            "workloads": ["oltp_read_only"],
            "threads": [1, 4],
            "variant": [
                {"name": "glibc"},
                {"name": "jemalloc", "allocator": "jemalloc"},
                {"name": "tuned"},
            ],
        }
        return Experiment.model_validate(table | changes)

    return make


@pytest.fixture
def drive(experiment: MakeExperiment, tmp_path: Path) -> Any:
    """``drive(hosts, blocks=4)``: a campaign over simulated hosts (simulated_hosts.Drive)."""
    from simulated_hosts import Drive

    return Drive(experiment, tmp_path / "r")


@pytest.fixture
def make(tmp_path: Path, experiment: MakeExperiment) -> Callable[..., Path]:
    """``make("a", blocks=6, sql=("UPDATE …",), faulty=("tuned",), threads=[1])``: a results
    directory that no server made.
    """
    from example_results import build

    def in_place(
        name: str,
        *,
        blocks: int = 6,
        sql: tuple[str, ...] = (),
        faulty: tuple[str, ...] = (),
        **changes: Any,
    ) -> Path:
        chosen = experiment(**({"time": {"warmup": "2s", "level": "3s", "idle": "2s"}} | changes))
        return build(tmp_path / name, chosen, blocks, sql, faulty)

    return in_place


@pytest.fixture
def running_program(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Compile and start a program; it runs until the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(
        name: str,
        source: str,
        *flags: str,
        preload: str = "",
        through_loader: bool = False,
        arguments: Sequence[str] = (),
        compiler: str = "cc",
    ) -> int:
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run(
            [
                compiler,
                "-O0",
                "-fno-builtin",
                "-o",
                tmp_path / name,
                tmp_path / f"{name}.c",
                *flags,
            ],
            check=True,
        )
        env = {**os.environ, "LD_PRELOAD": preload}
        loader = (
            sorted(map(str, Path("/").glob("lib*/ld-linux-*.so.*")))[:1] if through_loader else []
        )
        process = subprocess.Popen(
            [*loader, tmp_path / name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process.pid

    yield start
    for process in started:
        process.communicate("\n", timeout=10)
