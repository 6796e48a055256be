"""A variant's profiles: its load runs once more, unmeasured, while the server's waits or
allocations are recorded.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict

from dballoc.campaign.trial.server_in_trial import ServerLife
from dballoc.experiment.trial_steps import Step
from dballoc.ground.errors import Failure, UsageError
from dballoc.ground.files.output_directory import write_own
from dballoc.load.client import Client
from dballoc.profile.contention import contention as waits
from dballoc.profile.formats import profile_file
from dballoc.profile.heap import heap_profile as heaps
from dballoc.profile.heap import malloc_latency, probe_client
from dballoc.profile.heap.snapshot_series import ProbedProcess

# Seconds that the load may take until its first report, and between two looks for one.
_FIRST_REPORT, _POLL = 60.0, 0.05

# Seconds of load beyond the recording, for perf takes some seconds more to finish; the client is
# killed when the recording is over.
EXTRA_SECONDS = 120.0


def profile_contention(life: ServerLife, client: Client, step: Step) -> None:
    """Record what the server's threads wait for under this load, in the trial's directory. Raises
    Fault if the server ends. Any other error is noted in that directory, and the trial stays good.
    """

    def record(name: str) -> None:
        request = waits.WatchRequest(
            process=life.running.process,
            seconds=step.seconds,
            custody=life.context.custody,
            title=life.prepared.variant.name,
            facts={"workload": step.workload or "", "clients": str(step.threads)},
            check_alive=lambda: life.check_alive(step.title),
            report_watched=client.kill,
            is_ours=True,
        )
        profile = waits.watch_waits(request)
        waits.save_profiles(profile, life.directory, name, pages=False)

    _record_under_load(life, client, step, f"contention-{step.workload}", record)


def profile_heap(life: ServerLife, client: Client, step: Step) -> None:
    """Record what a server under the heap probe allocates, what is alive at the end, and how long
    its mallocs and frees take. Errors as for :func:`profile_contention`.
    """

    def record(name: str) -> None:
        probe = probe_client.find_probe_of_process(life.running.process)
        probe.reset()
        end = time.monotonic() + step.seconds
        while (remaining := end - time.monotonic()) > 0:
            life.check_alive(step.title)
            time.sleep(min(remaining, 0.2))
        snapshot = probe.snapshot()
        client.kill()  # resolving function names takes seconds and needs the process, but no load
        profile_file.save_profile(
            ProbedProcess(probe, life.prepared.variant.name).profile(snapshot),
            life.directory / f"{name}.profile.json.gz",
        )
        live = heaps.sum_blocks(snapshot.blocks)
        figures = {
            "seconds": snapshot.now - snapshot.reset,
            "live": live.bytes,
            "live_error": live.error,
            "objects": live.objects,
            "allocated": sum(s.bytes for s in snapshot.stacks.values()),
            "allocations": sum(s.objects for s in snapshot.stacks.values()),
            "malloc": asdict(malloc_latency.summarize_calls(snapshot)),
            "sizes": [asdict(row) for row in malloc_latency.summarize_by_size(snapshot)],
        }
        write_own(life.directory / f"{name}.json", json.dumps(figures))

    _record_under_load(life, client, step, f"heap-{step.workload}", record)


def _record_under_load(
    life: ServerLife, client: Client, step: Step, name: str, record: Callable[[str], None]
) -> None:
    try:
        try:
            if not _wait_for_load(life, client, step):
                raise Failure(
                    "the load reported nothing; sysbench's output is in the trial's raw files"
                )
            record(name)
        finally:
            client.kill()
    except (Failure, UsageError) as error:
        life.check_alive(step.title)
        life.context.observer.notice(
            f"{life.prepared.variant.name}: no profile of {step.workload}: {error}"
        )
        write_own(life.directory / f"{name}.txt", f"{error}\n")


def _wait_for_load(life: ServerLife, client: Client, step: Step) -> bool:
    """Wait for the client's first report. Return whether it came. Raises Fault if the server
    ends.
    """
    deadline = time.monotonic() + _FIRST_REPORT
    while not any(True for _ in client.reports()):
        life.check_alive(step.title)
        if client.wait(_POLL):
            return False
        if time.monotonic() > deadline:
            return False
    return True
