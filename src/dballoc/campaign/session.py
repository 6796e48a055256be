"""What everything that runs trials needs: its results directory, a guardian, and a user who may
stop it.
"""

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import dballoc
from dballoc.campaign.observer import Observer
from dballoc.campaign.preparation.prepare import Setting
from dballoc.campaign.results_directory import ROOM, Directory
from dballoc.campaign.trials.server_in_trial import Interrupted
from dballoc.errors import Failure, UsageError
from dballoc.experiment import experiment_file
from dballoc.host import directories, machine_description
from dballoc.host.guardian.guardian_client import Custody
from dballoc.host.settings import machine_lock, thp

T = TypeVar("T")


@dataclass
class Stop:
    """Ctrl-C or SIGTERM. Within a trial the first one is noted, and the trial ends at its next step
    of the clock; anywhere else, and the second time, it ends things at once.
    """

    in_trial: bool = False
    asked: bool = False

    def __call__(self, *_: object) -> None:
        """Handle the signal."""
        if self.asked or not self.in_trial:
            raise Interrupted
        self.asked = True


def within(
    setting: Setting, out: Path, observer: Observer, work: Callable[[Directory, Custody, Stop], T]
) -> T:
    """What ``work`` returns, done in the results directory ``out`` while no other run changes the
    host's settings. UsageError or Failure in one line; what was finished is kept, and nothing is
    left running.
    """
    for was in setting.put_back:
        observer.notice(
            f"{was.path}: put back from {was.after} to {was.before}; a run that was killed left it "
            "so"
        )
    out = out.absolute()  # servers and clients run in directories of their own
    if directories.free_bytes(out) < ROOM:
        raise Failure(f"{out}: less than {ROOM >> 20} MiB free; make room, or choose another --out")
    directory = Directory.take(out, setting.experiment)
    try:
        with (
            _host_settings(setting, out) as hold,
            Custody(keep_open=[directory.lock], hold=hold, adopt=True) as custody,
            _stop_on_interrupt() as stop,
        ):
            return work(directory, custody, stop)
    except OSError as error:
        raise Failure(
            f"{error.filename or out}: {error.strerror}; what was finished is kept, the same "
            "command resumes"
        ) from None
    finally:
        directory.release()


@contextlib.contextmanager
def _host_settings(setting: Setting, out: Path) -> Iterator[machine_lock.Hold | None]:
    """The machine's lock, to ourselves if a variant switches THP. UsageError if another run is in
    the way.
    """
    what = f"results in {out}"
    hold = machine_lock.hold(machine_lock.THIS, exclusive=setting.switches_thp, what=what)
    try:
        if thp.mode() != setting.thp:
            raise UsageError(
                f"{thp.ENABLED}: was {setting.thp} a moment ago and is {thp.mode()}; run the same "
                "command again"
            )
        yield hold
    finally:
        if hold:
            hold.release()


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[Stop]:
    stop = Stop()
    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def known_facts(setting: Setting) -> dict[str, str]:
    """What a results directory says of its campaign, whatever that does."""
    experiment = setting.experiment
    return {
        "dballoc": dballoc.__version__,
        "identity": experiment_file.identity(experiment),
        "experiment": experiment_file.dump(experiment),
        "seed": str(experiment.seed),
        "started": str(time.time()),
        "environment": json.dumps(machine_description.gather()),
        "sysbench": setting.sysbench.version,
        "server_user": setting.user.name,
    }
