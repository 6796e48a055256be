"""The results directory: made or reopened, locked, and checked to be this experiment's."""

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from dballoc.experiment import experiment_file
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.store.facts import FINAL_ENDINGS
from dballoc.store.open_database import FILE
from dballoc.store.results import Results

EXPERIMENT = "experiment.toml"
TRIALS = "trials"
_LOCK = "lock"

# Seconds that the guardian of a dballoc that was killed may take to clean up.
_PATIENCE = 60.0

# Bytes that must be free at the start, for a trial's raw files.
ROOM = 16 * 2**20


class ResultsDirectory:
    """A results directory that this process alone may write.

    path: as the user named it
    outputs: the same, to write into
    lock: the descriptor of its lock
    """

    def __init__(
        self, path: Path, outputs: OutputDirectory, trials: OutputDirectory, lock: int
    ) -> None:
        self.path = path
        self.outputs = outputs
        self.lock = lock
        self._trials = trials

    @classmethod
    def acquire(cls, path: Path, experiment: Experiment) -> "ResultsDirectory":
        """Make or reopen ``path`` and lock it.

        Raises UsageError if it is not ours alone, holds other files, links or another experiment,
        or if another dballoc uses it.
        """
        with contextlib.ExitStack() as on_failure:
            try:
                outputs = on_failure.enter_context(OutputDirectory.open(path))
                if not outputs.has_own_file(EXPERIMENT) and set(outputs.list_names()) - {_LOCK}:
                    raise UsageError(
                        f"{path}: not empty and not a results directory of dballoc; choose a new "
                        "--out"
                    )
                lock = _lock_directory(outputs)
                on_failure.callback(os.close, lock)
                _record_experiment(outputs, experiment)
                for name in (FILE, f"{FILE}-journal"):
                    outputs.has_own_file(name)
                trials = on_failure.enter_context(outputs.open_subdirectory(TRIALS))
            except OSError as error:
                raise (Failure if error.errno == errno.ENOSPC else UsageError)(
                    f"{error.filename or path}: {error.strerror}"
                ) from None
            on_failure.pop_all()
        return cls(path, outputs, trials, lock)

    def make_trial_directory(self, label: str) -> Path:
        """Make an empty directory for a trial's raw files; the leftovers of a killed dballoc are
        removed.
        """
        with self._trials.make_fresh_subdirectory(label) as directory:
            return directory.path

    def remove_trial_directory(self, path: Path) -> None:
        """Remove a trial's directory, as far as possible."""
        with contextlib.suppress(OSError):
            self._trials.remove(path.name)

    def remove_unfinished_trials(self, finished: set[str]) -> list[str]:
        """Remove the directories of trials that are not in the database; returns their labels."""
        unfinished = [name for name in self._trials.list_names() if name not in finished]
        for name in unfinished:
            self.remove_trial_directory(self._trials.path / name)
        return unfinished

    def release(self) -> None:
        """Unlock it; the guardian may hold the lock a little longer."""
        os.close(self.lock)
        self._trials.close()
        self.outputs.close()


def load_experiment(path: Path) -> Experiment:
    """Load the experiment of a results directory. Raises UsageError if it is not one."""
    if not (path / EXPERIMENT).is_file():
        raise UsageError(f"{path}: not a results directory of dballoc: no {EXPERIMENT}")
    return experiment_file.load_experiment(path / EXPERIMENT)


def _lock_directory(outputs: OutputDirectory) -> int:
    path, fd = outputs.path, outputs.open_lock(_LOCK)
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


def _record_experiment(outputs: OutputDirectory, experiment: Experiment) -> None:
    """Write the experiment into the directory. Raises UsageError if another one is there."""
    path = outputs.path
    if not outputs.has_own_file(EXPERIMENT):
        outputs.write(EXPERIMENT, experiment_file.format_experiment(experiment))
    elif experiment_file.compute_identity(
        load_experiment(path)
    ) != experiment_file.compute_identity(experiment):
        raise UsageError(
            f"{path}: holds results of another experiment ({EXPERIMENT} there); choose a new --out"
        )


def choose_results_directory(out: Path | None, experiment: Experiment, verb: str = "") -> Path:
    """Return the results directory of an experiment: ``out``; without it, its unfinished one below
    dballoc-results, else a new one there.

    ``verb``: of a command other than bench, whose results must not be mixed with bench's.
    """
    if out is not None:
        return out
    parent = Path("dballoc-results")
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
        return results.facts().ending in FINAL_ENDINGS
    finally:
        results.close()
