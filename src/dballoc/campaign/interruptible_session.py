"""The session in which a campaign's trials run: its results directory, a guardian, the machine's
lock, and a user who may stop it.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepared import Prepared
from dballoc.campaign.results_directory import ROOM, ResultsDirectory
from dballoc.campaign.trial.client_host import ClientHost
from dballoc.campaign.trial.data_copies import DataCopies
from dballoc.campaign.trial.server_in_trial import Interrupted, TrialContext
from dballoc.experiment.schedule import Slot
from dballoc.ground.errors import Failure, NotNow, UsageError
from dballoc.host import directories
from dballoc.host.guardian.guardian_client import Custody, Lease
from dballoc.host.settings import machine_lock, thp

T = TypeVar("T")

# Seconds that a block may hold a host after its driver was lost: the next driver must not take it
# for another user's run.
_PATIENCE_WITH_BLOCKS = 60.0


SettingT = TypeVar("SettingT", bound=Prepared, covariant=True)
PreparedT = TypeVar("PreparedT", bound=Prepared)


@dataclass
class Stop:
    """Handles Ctrl-C and SIGTERM. The first one is noted, and a trial stops when it next looks;
    outside a trial, or the second time, it interrupts at once. Python drops what is raised within a
    finalizer: then the next trial stops.
    """

    in_trial: bool = False
    requested: bool = False

    def __call__(self, *_: object) -> None:
        """Handle the signal."""
        was_requested, self.requested = self.requested, True
        if was_requested or not self.in_trial:
            raise Interrupted


@dataclass
class TrialRun:
    """A trial under way. ``directory``: for its raw files; ``cpu_seconds``: what its processes
    used, known when it has ended.
    """

    directory: Path
    cpu_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Session(Generic[SettingT]):
    """What a campaign has while its trials run. ``client_host``: where the clients of solo trials
    run, None for this host.
    """

    setting: SettingT
    directory: ResultsDirectory
    custody: Custody
    copies: DataCopies
    observer: Observer
    stop: Stop
    client_host: ClientHost | None = None

    @property
    def trial_context(self) -> TrialContext:
        """What its trials of servers share."""
        assert isinstance(self.setting, PreparedCampaign)
        return TrialContext(
            setting=self.setting,
            custody=self.custody,
            copies=self.copies,
            observer=self.observer,
            stopping=lambda: self.stop.requested,
            client_host=self.client_host,
        )

    @contextlib.contextmanager
    def run_trial(self, slot: Slot, *, interruptible: bool = False) -> Iterator[TrialRun]:
        """Begin a trial, and run it in this block, which the first Ctrl-C does not interrupt,
        unless it is ``interruptible`` because it never looks for one. Its raw files are removed if
        it is lost. After a bug of dballoc they are kept until the campaign is resumed, because they
        may show the cause.
        """
        cpu_before = self.custody.cpu_seconds
        trial = TrialRun(self.directory.make_trial_directory(slot.label))
        self.stop.in_trial = not interruptible
        try:
            self.observer.trial_started(slot)
            yield trial
        except (Interrupted, Failure, UsageError, OSError, KeyboardInterrupt):
            self.directory.remove_trial_directory(trial.directory)
            raise
        finally:
            self.stop.in_trial = False
        trial.cpu_seconds = self.custody.cpu_seconds - cpu_before


def run_in_session(
    setting: PreparedT,
    out: Path,
    observer: Observer,
    work: Callable[[Session[PreparedT]], T],
    *,
    runs_here: bool = True,
    lease: Lease | None = None,
) -> T:
    """Do ``work`` in the results directory ``out``, while no other run changes the host's settings,
    and return its result. UsageError or Failure; what was finished is kept, and nothing is left
    running. ``runs_here``: whether trials run on this machine; otherwise its settings stay free for
    other runs; ``lease``: of the trials.
    """
    for change in setting.put_back:
        observer.notice(
            f"{change.path}: put back from {change.after} to {change.before}; a killed run had "
            "left it changed"
        )
    out = out.absolute()  # servers and clients run in directories of their own
    if directories.free_bytes(out) < ROOM:
        raise Failure(f"{out}: less than {ROOM >> 20} MiB free; make room, or choose another --out")
    directory = ResultsDirectory.acquire(out, setting.experiment)
    try:
        with (
            _hold_host_settings(setting, out, _PATIENCE_WITH_BLOCKS if lease else 0.0)
            if runs_here
            else contextlib.nullcontext() as hold,
            Custody(keep_open=[directory.lock], hold=hold, adopt=True, lease=lease) as custody,
            _stop_on_interrupt() as stop,
        ):
            return work(
                Session(
                    setting=setting,
                    directory=directory,
                    custody=custody,
                    copies=DataCopies(
                        custody, setting.user, setting.reuses_data, setting.copies_at_once
                    ),
                    observer=observer,
                    stop=stop,
                )
            )
    except OSError as error:
        raise Failure(
            f"{error.filename or out}: {error.strerror}; finished trials are kept; run the same "
            "command to resume"
        ) from None
    finally:
        directory.release()


@contextlib.contextmanager
def _hold_host_settings(
    setting: Prepared, out: Path, patience: float
) -> Iterator[machine_lock.Hold | None]:
    """Hold the machine's lock, exclusively if a variant switches THP. Raises UsageError if another
    run holds it for longer than ``patience`` seconds.
    """
    hold = machine_lock.hold(
        machine_lock.THIS_MACHINE,
        exclusive=setting.switches_thp,
        purpose=f"results in {out}",
        patience=patience,
    )
    try:
        if switched := thp.find_switched(setting.thp):
            raise NotNow(
                f"{switched.path}: somebody switched it from {switched.expected} to "
                f"{switched.value} just now; run the same command again"
            )
        yield hold
    finally:
        if hold:
            hold.release()


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[Stop]:
    """Let a :class:`Stop` handle SIGINT and SIGTERM."""
    stop = Stop()
    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
