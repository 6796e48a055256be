"""The results directory: ours alone while we work in it, and only for the experiment that it was
made for.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dballoc.campaign import results_directory
from dballoc.campaign.results_directory import ResultsDirectory
from dballoc.ground.errors import Failure, UsageError

# Holds the lock as another process does, under its own number or another's.
HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1] + "/lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.ftruncate(fd, 0)
os.pwrite(fd, (sys.argv[2] or str(os.getpid())).encode(), 0)
print("locked", flush=True)
sys.stdin.read()
"""


def refused(path: Path, experiment) -> str:
    with pytest.raises(UsageError) as caught:
        ResultsDirectory.acquire(path, experiment)
    return str(caught.value)


def test_a_new_one_is_made(tmp_path: Path, experiment) -> None:
    path = tmp_path / "a" / "b"
    ResultsDirectory.acquire(path, experiment()).release()
    assert sorted(p.name for p in path.iterdir()) == ["experiment.toml", "lock", "trials"]
    assert results_directory.load_experiment(path) == experiment()


def test_the_same_experiment_may_come_back(tmp_path: Path, experiment) -> None:
    ResultsDirectory.acquire(tmp_path, experiment()).release()
    ResultsDirectory.acquire(tmp_path, experiment()).release()


def test_another_experiment_is_refused_and_lets_go(tmp_path: Path, experiment) -> None:
    ResultsDirectory.acquire(tmp_path, experiment()).release()
    said = refused(tmp_path, experiment(seed=2))
    assert (
        said
        == f"{tmp_path}: holds results of another experiment (experiment.toml there); choose a new --out"
    )
    ResultsDirectory.acquire(tmp_path, experiment()).release()


def test_a_directory_with_something_else_is_refused(tmp_path: Path, experiment) -> None:
    (tmp_path / "thesis.tex").touch()
    assert (
        refused(tmp_path, experiment())
        == f"{tmp_path}: not empty and not a results directory of dballoc; choose a new --out"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_half_made_one_is_completed(tmp_path: Path, experiment) -> None:
    (tmp_path / ".dballoc-partial-0123456789ab").write_text("bas")
    (tmp_path / "lock").touch()
    ResultsDirectory.acquire(tmp_path, experiment()).release()
    assert results_directory.load_experiment(tmp_path) == experiment()


def test_a_file_in_its_place(tmp_path: Path, experiment) -> None:
    path = tmp_path / "file"
    path.touch()
    assert refused(path, experiment()) == f"{path}: Not a directory"


def test_an_experiment_that_no_longer_reads_names_its_file(tmp_path: Path, experiment) -> None:
    ResultsDirectory.acquire(tmp_path, experiment()).release()
    (tmp_path / "experiment.toml").write_text("nonsense = 1\n")
    assert refused(tmp_path, experiment()).startswith(f"{tmp_path}/experiment.toml: ")


def test_no_results_directory_to_report_from(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"not a results directory of dballoc: no experiment\.toml"
    ):
        results_directory.load_experiment(tmp_path)


def test_a_second_one_is_refused_and_told_who(tmp_path: Path, experiment) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path, ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        said = refused(tmp_path, experiment())
        holder.communicate(timeout=10)
    assert (
        said
        == f"{tmp_path}: another dballoc (process {holder.pid}) uses it; wait, or choose a new --out"
    )
    ResultsDirectory.acquire(tmp_path, experiment()).release()


def test_the_guardian_of_a_dead_one_is_waited_for(
    tmp_path: Path, experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_directory, "_PATIENCE", 0.3)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path, str(gone.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(
            Failure, match="still locked by the guardian of a dballoc that has ended"
        ):
            ResultsDirectory.acquire(tmp_path, experiment())
        holder.communicate(timeout=10)
    taken = ResultsDirectory.acquire(tmp_path, experiment())
    assert (tmp_path / "lock").read_text() == str(os.getpid())
    taken.release()


def test_trials_that_the_store_does_not_know_are_forgotten(tmp_path: Path, experiment) -> None:
    taken = ResultsDirectory.acquire(tmp_path, experiment())
    for label in ("b001-p001-glibc-A1", "b001-p002-jemalloc"):
        (taken.make_trial_directory(label) / "server.log").touch()
    assert taken.remove_unfinished_trials({"b001-p001-glibc-A1"}) == ["b001-p002-jemalloc"]
    assert [p.name for p in (tmp_path / "trials").iterdir()] == ["b001-p001-glibc-A1"]
    # One that runs again begins empty.
    assert list(taken.make_trial_directory("b001-p001-glibc-A1").iterdir()) == []
    taken.release()
