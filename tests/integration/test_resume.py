"""Levels with a fresh start each; Ctrl-C, and the same command again."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Cli, Experiment, processes_of, rows, server_pid, wait_until

from dballoc.allocators.find_library import find_allocator
from dballoc.ground.errors import UsageError

ONE = [{"name": "glibc"}]


@pytest.fixture
def own_jemalloc(home: Path) -> Iterator[Path]:
    """A library in no package, as the user has built it."""
    try:
        [library] = find_allocator("jemalloc").libraries
    except UsageError as lacking:
        pytest.skip(str(lacking))
    place = home / "built"
    place.mkdir()
    yield Path(shutil.copy(library, place / "libmine.so"))
    shutil.rmtree(place)


def test_fresh_levels_give_each_a_start(
    run_cli: Cli, tiny_experiment: Experiment, out: Path
) -> None:
    file = tiny_experiment(
        levels="fresh", threads=[1, 3], variant=ONE, time={"idle": "0s"}, warmup_sql=[]
    )
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    found = rows(
        out, "SELECT role, trial.level, step.threads, outcome FROM trial JOIN step USING (trial)"
    )
    assert {(r["role"], r["level"], r["threads"]) for r in found} == {
        ("A1", 1, 1),
        ("A2", 1, 1),
        ("A1", 3, 3),
        ("A2", 3, 3),
    }
    assert {r["outcome"] for r in found} == {"ok"}


def finished(out: Path) -> list[tuple[int, int]]:
    """(position, row number) of every trial in the store; none while there is no store."""
    if not (out / "results.sqlite").exists():
        return []
    return [
        (r["position"], r["trial"])
        for r in rows(out, "SELECT position, trial FROM trial ORDER BY position")
    ]


def attempts(out: Path) -> dict[int, list[int]]:
    """The positions of the finished trials of each attempt at the only block."""
    positions: dict[int, list[int]] = {}
    for row in rows(out, "SELECT attempt, position FROM trial ORDER BY attempt, position"):
        positions.setdefault(row["attempt"], []).append(row["position"])
    return positions


def test_ctrl_c_ends_cleanly_and_the_same_command_resumes(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path
) -> None:
    file = tiny_experiment(time={"idle": "0s"})
    process = run_cli.start("bench", file, "--out", out)
    wait_until(lambda: len(finished(out)) == 1 and server_pid(home), 120)
    before = finished(out)
    # As a terminal does it: to everyone in the foreground.
    os.killpg(process.pid, signal.SIGINT)
    done = run_cli.end(process)
    assert done.status == 130, done.text
    assert "interrupted; run the same command to resume" in done.text
    assert "Traceback" not in done.text
    assert finished(out)[: len(before)] == before
    assert not processes_of(home)
    assert len(list((out / "trials").iterdir())) == len(finished(out)), (
        "the trial under way left its files"
    )

    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    assert f"resuming: {len(before)} trials are finished already" in done.text
    # The block was cut: its next attempt has all of its trials, and what it had is kept.
    assert attempts(out) == {0: [1], 1: [1, 2, 3]}
    assert set(before) <= set(finished(out)), "a finished trial was lost"

    # And a third time there is nothing left to do.
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    assert attempts(out) == {0: [1], 1: [1, 2, 3]}


def test_a_dry_run_starts_nothing(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    done = run_cli("bench", tiny_experiment(blocks=4), "--dry-run", "--out", out)
    assert done.status == 0, done.text
    assert "12 (4 solo blocks of 3)" in done.stdout
    assert not out.exists()


def test_a_malloc_of_ones_own_is_the_same_to_the_end(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, home: Path, own_jemalloc: Path
) -> None:
    command = (
        "bench", tiny_experiment(time={"idle": "0s"}, variant=ONE),
        "--preload", own_jemalloc, "--out", out,
    )  # fmt: skip
    done = run_cli(*command)
    assert done.status == 0, done.text
    assert {
        (r["name"], r["libraries"]) for r in rows(out, "SELECT name, libraries FROM variant")
    } == {
        ("glibc", "[]"),
        ("mine", f'["{own_jemalloc}"]'),
    }
    assert {r["outcome"] for r in rows(out, "SELECT outcome FROM trial")} == {"ok"}
    done = run_cli(*command)
    assert done.status == 0, done.text

    with own_jemalloc.open("ab") as file:
        file.write(b"another build")
    done = run_cli(*command)
    assert done.status == 2, done.text
    assert (
        f"variant 'mine': {own_jemalloc} changed since its trials ran; choose a new --out"
        in done.text
    )
    # A report needs the library no more.
    own_jemalloc.unlink()
    assert run_cli("report", out).status == 0
