"""A variant's profile: its load once more, after all that is measured, and a look at what the server then waits for."""

import time

from dballoc.campaign.life import Life
from dballoc.errors import Failure, UsageError
from dballoc.experiment.steps import Step
from dballoc.load.client import Client
from dballoc.profile import contention

# How long the load may take to report for the first time, and how often we look.
_PATIENCE, _POLL = 60.0, 0.05

# What the client is told to run for: it is ended when the look is over, which takes perf some seconds more.
EXTRA = 120.0


def stem(workload: str) -> str:
    """How a workload's files begin in the trial's directory."""
    return f"contention-{workload}"


def profile(life: Life, client: Client, step: Step) -> None:
    """Watch the server under this load, and keep what was seen in the trial's directory. Fault if the server ends; whatever
    else goes wrong is said there: what was measured is good without it.
    """
    assert step.workload
    name = stem(step.workload)
    try:
        try:
            if not _loaded(life, client, step):
                raise Failure("its load said nothing; the raw files of the trial have what sysbench printed")
            found = contention.look(
                life.running.pid, step.seconds, life.context.custody, title=life.prepared.variant.name,
                facts={"workload": step.workload, "clients": str(step.threads)},
                alive=lambda: life.check_alive(step.title), watched=client.kill,
            )  # fmt: skip
        finally:
            client.kill()
        contention.keep(found, life.directory, name, pages=False)
    except (Failure, UsageError) as error:
        life.check_alive(step.title)
        life.context.observer.notice(f"{life.prepared.variant.name}: no profile of {step.workload}: {error}")
        (life.directory / f"{name}.txt").write_text(f"{error}\n", encoding="utf-8")


def _loaded(life: Life, client: Client, step: Step) -> bool:
    """Whether the client's first report came. Fault if the server ends."""
    deadline = time.monotonic() + _PATIENCE
    while not any(True for _ in client.reports()):
        life.check_alive(step.title)
        if client.wait(_POLL):
            return False
        if time.monotonic() > deadline:
            return False
    return True
