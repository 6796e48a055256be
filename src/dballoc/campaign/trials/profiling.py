"""A variant's profiles: its load once more, unmeasured, and a look at what the server waits for or
allocates meanwhile.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict

from dballoc.campaign.trials.server_in_trial import Life
from dballoc.errors import Failure, UsageError
from dballoc.experiment.trial_steps import Step
from dballoc.load.client import Client
from dballoc.profile.contention import contention as waits
from dballoc.profile.formats import profile_file
from dballoc.profile.heap import heap_profile as heaps
from dballoc.profile.heap import malloc_latency, probe_client
from dballoc.profile.heap.snapshot_series import Watch

# How long the load may take to report for the first time, and how often we look.
_PATIENCE, _POLL = 60.0, 0.05

# What the client is told to run for: it is ended when the look is over, which takes perf some
# seconds more.
EXTRA = 120.0


def contention(life: Life, client: Client, step: Step) -> None:
    """Watch what the server's threads wait for under this load, and keep it in the trial's
    directory. Fault if the server ends; whatever else goes wrong is said there: what was measured
    is good without it.
    """

    def look(name: str) -> None:
        found = waits.look(
            life.running.pid, step.seconds, life.context.custody, title=life.prepared.variant.name,
            facts={"workload": step.workload or "", "clients": str(step.threads)},
            alive=lambda: life.check_alive(step.title), watched=client.kill,
        )  # fmt: skip
        waits.keep(found, life.directory, name, pages=False)

    _watched(life, client, step, f"contention-{step.workload}", look)


def heap(life: Life, client: Client, step: Step) -> None:
    """As :func:`contention`, of a server under the heap probe: what it allocates, what is alive at
    the end, and how long its mallocs and frees take.
    """

    def look(name: str) -> None:
        there = probe_client.of_process(life.running.pid)
        there.reset()
        end = time.monotonic() + step.seconds
        while (left := end - time.monotonic()) > 0:
            life.check_alive(step.title)
            time.sleep(min(left, 0.2))
        snapshot = there.snapshot()
        client.kill()  # the names of functions take seconds, and need the process, but no load
        profile_file.save(
            Watch(there, life.prepared.variant.name).profile(snapshot),
            life.directory / f"{name}.profile.json.gz",
        )
        live = heaps.whole(snapshot.blocks)
        figures = {
            "seconds": snapshot.now - snapshot.reset,
            "live": live.bytes,
            "live_error": live.error,
            "objects": live.objects,
            "allocated": sum(s.bytes for s in snapshot.stacks.values()),
            "allocations": sum(s.objects for s in snapshot.stacks.values()),
            "malloc": asdict(malloc_latency.summary(snapshot)),
            "sizes": [asdict(row) for row in malloc_latency.rows(snapshot)],
        }
        (life.directory / f"{name}.json").write_text(json.dumps(figures), encoding="utf-8")

    _watched(life, client, step, f"heap-{step.workload}", look)


def _watched(
    life: Life, client: Client, step: Step, name: str, look: Callable[[str], None]
) -> None:
    try:
        try:
            if not _loaded(life, client, step):
                raise Failure(
                    "its load said nothing; the raw files of the trial have what sysbench printed"
                )
            look(name)
        finally:
            client.kill()
    except (Failure, UsageError) as error:
        life.check_alive(step.title)
        life.context.observer.notice(
            f"{life.prepared.variant.name}: no profile of {step.workload}: {error}"
        )
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
