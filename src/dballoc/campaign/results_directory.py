"""The results directory: made or reopened, locked, and checked to be this experiment's."""

import fcntl
import os
import shutil
import time
from pathlib import Path

from dballoc.errors import Failure, UsageError
from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.store.campaign_facts import FINAL_ENDINGS
from dballoc.store.open_database import FILE
from dballoc.store.results import Results

EXPERIMENT = "experiment.toml"
TRIALS = "trials"
_LOCK = "lock"

# Seconds that the guardian of a dballoc that was killed may take to clean up.
_PATIENCE = 60.0

# Bytes that must be free at the start, for a trial's raw files.
ROOM = 16 * 2**20


class Directory:
    """A results directory that this process alone may write."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.lock = lock

    @classmethod
    def acquire(cls, path: Path, experiment: Experiment) -> "Directory":
        """Make or reopen ``path`` and lock it.

        UsageError if it holds other files or another experiment, or if another dballoc uses it.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            unknown = [p.name for p in path.iterdir()] if not (path / EXPERIMENT).exists() else []
            if set(unknown) - {_LOCK, EXPERIMENT + ".partial"}:
                raise UsageError(
                    f"{path}: not empty and not a results directory of dballoc; choose a new --out"
                )
            lock = _lock_directory(path)
            try:
                _record_experiment(path, experiment)
                (path / TRIALS).mkdir(exist_ok=True)
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            raise (Failure if error.errno == 28 else UsageError)(
                f"{path}: {error.strerror}"
            ) from None
        return cls(path, lock)

    def make_trial_directory(self, label: str) -> Path:
        """Make an empty directory for a trial's raw files; the leftovers of a killed dballoc are
        removed.
        """
        path = self.path / TRIALS / label
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path

    def remove_unfinished_trials(self, finished: set[str]) -> list[str]:
        """Remove the directories of trials that are not in the database; returns their labels."""
        unfinished = [p for p in (self.path / TRIALS).iterdir() if p.name not in finished]
        for path in unfinished:
            shutil.rmtree(path, ignore_errors=True)
        return sorted(p.name for p in unfinished)

    def release(self) -> None:
        """Unlock it; the guardian may hold the lock a little longer."""
        os.close(self.lock)


def load_experiment(path: Path) -> Experiment:
    """Load the experiment of a results directory. UsageError if it is not one."""
    if not (path / EXPERIMENT).is_file():
        raise UsageError(f"{path}: not a results directory of dballoc: no {EXPERIMENT}")
    return experiment_file.load_experiment(path / EXPERIMENT)


def _lock_directory(path: Path) -> int:
    fd = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode().strip()
            if holder.isdigit() and Path(f"/proc/{holder}").exists():
                os.close(fd)
                raise UsageError(
                    f"{path}: another dballoc (process {holder}) uses it; wait, or choose a new "
                    "--out"
                ) from None
            # The holder is gone and its guardian is still cleaning up.
            if time.monotonic() > deadline:
                os.close(fd)
                raise Failure(
                    f"{path}: still locked by the guardian of a dballoc that has ended"
                ) from None
            time.sleep(0.1)
            continue
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        return fd


def _record_experiment(path: Path, experiment: Experiment) -> None:
    """Write the experiment into the directory. UsageError if another one is there."""
    target = path / EXPERIMENT
    if not target.exists():
        partial = path / (EXPERIMENT + ".partial")
        partial.write_text(experiment_file.format_experiment(experiment), encoding="utf-8")
        partial.rename(target)
    elif experiment_file.compute_identity(
        load_experiment(path)
    ) != experiment_file.compute_identity(experiment):
        raise UsageError(
            f"{path}: holds results of another experiment ({EXPERIMENT} there); choose a new --out"
        )


def choose_results_directory(parent: Path, experiment: Experiment, verb: str = "") -> Path:
    """Return the results directory of an experiment without --out: its unfinished one under
    ``parent``, else a new one.

    ``verb``: of a command other than bench, whose results must not be mixed with bench's.
    """
    base = "-".join(
        filter(None, [verb, experiment.name, experiment_file.compute_identity(experiment)[:8]])
    )
    for number in range(1, 10_000):
        path = parent / (base if number == 1 else f"{base}-{number}")
        if not is_finished(path):
            return path
    raise UsageError(f"{parent}: holds ten thousand results of this experiment; give --out")


def is_finished(path: Path) -> bool:
    """Whether the directory's campaign has ended, and not by an interruption."""
    if not (path / FILE).exists():
        return False
    results = Results.open(path, read_only=True)
    try:
        return results.facts().get("ending") in FINAL_ENDINGS
    finally:
        results.close()
