"""One trial: copy the data, start, prove, run the steps, stop. A fault on the way is a result, not an error."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from dballoc.allocators import proof
from dballoc.allocators import running as running_process
from dballoc.campaign import summary
from dballoc.campaign.fault import Examiner, Fault, killed
from dballoc.campaign.observer import Observer, Tick
from dballoc.campaign.prepare import Prepared, Setting
from dballoc.campaign.summary import Gathered
from dballoc.errors import Failure
from dballoc.experiment.cpus import format_cpus
from dballoc.experiment.schedule import Slot
from dballoc.experiment.steps import Step, cycle, idle_or_load_seconds
from dballoc.host import cgroup, places, thp
from dballoc.host.custody import Custody, Exit
from dballoc.load import client
from dballoc.load.output import Interval
from dballoc.measure import marks
from dballoc.measure.marks import Mark
from dballoc.measure.process import Gone, ProcessSampler, Sample
from dballoc.servers import options as server_options
from dballoc.servers import server
from dballoc.servers.template import Template
from dballoc.store.results import TrialRecord

# How often the client's report file and both processes are looked at, and how long a client may overrun.
_POLL = 0.05
_OVERRUN = 60.0
# A sample follows every report of the load; where none comes, one is taken after this many seconds.
_LONGEST_GAP = 1.25


class Interrupted(Exception):
    """The user has asked to stop; the trial under way is lost."""


@dataclass(frozen=True)
class Context:
    """What all trials of a campaign share."""

    setting: Setting
    custody: Custody
    observer: Observer
    stopping: Callable[[], bool]


def run(context: Context, slot: Slot, template: Template, directory: Path) -> TrialRecord:
    """Run one trial with its raw files in ``directory``. Interrupted if the user stops; OSError if that disk is full."""
    scratch = places.make_scratch(context.custody.scratch)
    run_directory = places.make_run_directory(context.custody.scratch)
    trial = _Trial(context, slot, template, directory, scratch, run_directory)
    try:
        return trial.run()
    finally:
        trial.clean_up()


class _Trial:
    def __init__(
        self, context: Context, slot: Slot, template: Template, directory: Path, scratch: Path, run_directory: Path
    ) -> None:
        self.context = context
        self.slot = slot
        self.prepared: Prepared = context.setting.variants[slot.variant]
        self.template = template
        self.directory = directory
        self.scratch = scratch
        self.run_directory = run_directory
        self.experiment = context.setting.experiment
        self.steps = cycle(self.experiment, slot)
        self.t0 = time.monotonic()
        self.log = directory / "server.log"
        self.cgroup: cgroup.MemoryCgroup | None = None
        self.examiner = self._examiner()
        self.running: server.Running | None = None
        self.sampler: ProcessSampler | None = None
        self.ended: Exit | None = None
        self.mark: Mark | None = None
        self.cost = 0.0
        self.record = TrialRecord(_blank())

    def run(self) -> TrialRecord:
        try:
            self._start()
            for step in self.steps:
                self._step(step)
            self._stop()
        except Fault as fault:
            self._note_fault(fault)
        except Gone:
            self._note_fault(self._death("while it was measured"))
        row = self.record.trial
        row["ended"] = time.time()
        row["sampler_cpu"] = self.cost
        row["samples"] = len(self.record.samples)
        peaks = [s["rss_peak"] for s in self.record.steps] + [s["rss"] for s in self.record.samples]
        row["rss_peak"] = max(peaks) if peaks else None
        return self.record

    # -- start and stop ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        user = self.context.setting.user
        self.scratch.chmod(0o711)
        user.give(self.run_directory)
        data = self.scratch / "data"
        try:
            self.template.copy(self.context.custody, data, self.directory / "copy.log")
        except OSError as error:
            raise Fault("disk", f"the data cannot be copied to {data}: {error}") from None
        self._switch_thp()
        if self.experiment.limits.memory is not None:
            self.cgroup = cgroup.create(self.context.custody, self.experiment.limits.memory)
            self.examiner = self._examiner()
        port = server.free_port() if self.prepared.server.connect == "tcp" else None
        self.address = server_options.Address(self.run_directory / "mysqld.sock", port)
        launch = server.Launch(
            server_options.command(self.prepared.build, data, self.address, self.prepared.options),
            self.prepared.env, self.address, self.log, self.template.password, user, self.prepared.server_cpus,
            self.prepared.nofile, [self.cgroup.procs] if self.cgroup else None,
        )  # fmt: skip
        try:
            self.running = server.start(self.context.custody, launch, self.experiment.time.start, self.experiment.data.database)
        except server.StartFailed as error:
            self.ended = error.exit
            raise self.examiner.failed_start(str(error), error.exit) from None
        self.record.trial["seconds_to_start"] = self.running.seconds_to_start
        self.sampler = ProcessSampler(self.running.pid)
        self._prove()
        self._take_mark(0)
        assert self.mark
        self.record.trial["rss_start"] = self.mark.rss

    def _examiner(self) -> Examiner:
        complaints = self.prepared.allocator.entry.get("complaints", [])
        return Examiner(self.log, self.scratch, complaints, self.cgroup, self.experiment.limits.memory)

    def _switch_thp(self) -> None:
        wanted = self.prepared.variant.thp
        if wanted is None:
            self.context.custody.restore()
        elif thp.mode() != wanted:
            self.context.custody.set(thp.ENABLED, wanted)

    def _prove(self) -> None:
        running = self._server()
        maps = Path(f"/proc/{running.pid}/maps").read_text()
        (self.directory / "maps.txt").write_text(maps)
        variables = running.admin.variables()
        _write_pairs(self.directory / "variables.tsv", variables)
        word = variables.get("version_malloc_library")
        expected = self.prepared.allocator.entry.get("word")
        try:
            live: dict[str, str] | None = running_process.bindings(running.pid)
        except running_process.Unreadable:
            live = None  # a host that forbids it (ptrace_scope); the loader's word at --version has been checked
        self.record.trial["proof"] = json.dumps(proof.summary(self.prepared.bindings, live, word))
        self.record.trial["thp"] = thp.achieved(running.pid)
        self.record.trial["cpus"] = format_cpus(os.sched_getaffinity(running.pid))
        try:
            if live:
                proof.check_bindings(proof.Bindings(live, ""), self.prepared.allocator.providers, [])
            proof.check_running(maps, word, expected, self.prepared.allocator.providers)
        except proof.NotProved as error:
            raise Fault("proof", str(error)) from None
        if said := self.examiner.complaint():
            raise Fault("proof", said)
        if self.prepared.variant.thp in ("always", "madvise") and thp.allowed(running.pid) is False:
            raise Fault("proof", "the server has switched THP off for itself, past our shim")

    def _stop(self) -> None:
        running = self._server()
        began = time.monotonic()
        self.ended = server.stop(running, self.experiment.time.stop)
        self.record.trial |= {
            "exit_status": self.ended.status, "server_user": self.ended.user, "server_system": self.ended.system,
        }  # fmt: skip
        if self.ended.status == -signal.SIGKILL:
            foreign = killed(self.ended) if time.monotonic() - began < self.experiment.time.stop else None
            raise (
                self.examiner.oom()
                or foreign
                or Fault("hang", f"the server does not stop within {self.experiment.time.stop:.0f} s")
            )
        if self.ended.status != 0:
            raise Fault("died", f"the server ended badly at its shutdown ({self.ended.words}): {self.examiner.last_word()}")

    def clean_up(self) -> None:
        """Stop what still runs and remove the scratch data. Safe to call at any point."""
        if self.sampler:
            self.sampler.close()
        try:
            if self.running and self.ended is None:
                self.running.admin.close()
                self.running.child.stop(signal.SIGKILL, 0)
        finally:
            # Also where the guardian was killed, which else removes these.
            if self.cgroup:
                try:
                    self.cgroup.remove()
                except OSError:
                    pass  # the guardian tries again
            for path in (self.scratch, self.run_directory):
                shutil.rmtree(path, ignore_errors=True)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        self.context.observer.step_started(step)
        sampler = self._sampler()
        reset = sampler.reset_peak()
        self._write_status(step, "before")
        started = time.monotonic()
        cost = time.thread_time()
        samples = [sampler.sample(whole=True)]
        intervals: list[Interval] = []
        result: client.Result | None = None
        match step.kind:
            case "sql":
                self._query(step)
            case "idle":
                self._idle(step, samples)
            case _:
                result = self._load(step, samples, intervals)
        samples.append(sampler.sample(whole=True))
        self.cost += time.thread_time() - cost
        self._write_status(step, "after")
        # The kernel's own peak lags by a few pages: it counts in batches.
        peak = max(*(s.rss for s in samples), samples[-1].peak if reset else 0)
        total, histogram = (result.total, result.histogram) if result else (None, [])
        gathered = Gathered(step, started, time.monotonic(), samples, intervals, total, histogram, peak)
        self._keep(gathered)
        self.record.trial["seconds_planned"] = idle_or_load_seconds(self.steps[: step.number])
        self._take_mark(step.number)
        if step.kind == "idle" and self.mark:
            self.record.trial["rss_idle"] = self.mark.rss

    def _query(self, step: Step) -> None:
        assert step.sql
        try:
            self._server().admin.scan(step.sql)
        except pymysql.Error as error:
            if self._server().child.wait(1.0):
                raise self._death(f"at {step.sql}") from None
            raise Fault("client", f"warmup_sql {step.sql!r}: {error.args[-1]}") from None

    def _idle(self, step: Step, samples: list[Sample]) -> None:
        end = time.monotonic() + step.seconds
        while (left := end - time.monotonic()) > 0:
            self._check_alive(step)
            self._server().child.wait(min(1.0, left))
            samples.append(self._sampler().sample())
            self.context.observer.tick(Tick(samples[-1].rss, step.seconds - max(0.0, end - time.monotonic())))

    def _load(self, step: Step, samples: list[Sample], intervals: list[Interval]) -> client.Result:
        assert step.workload and step.threads
        engine = self.prepared.server.engine
        job = client.Job(step.workload, step.threads, step.seconds, self.experiment.data, engine, self.experiment.load)
        connection = client.connection_file(self.run_directory, self.address, self.template.password)
        name = f"{step.number:02}-{step.title.replace(' ', '-')}"
        running = client.start(
            self.context.custody,
            self.context.setting.sysbench,
            job,
            connection,
            self.directory,
            name,
            self.prepared.client_cpus,
        )
        deadline = time.monotonic() + step.seconds + _OVERRUN
        done: Exit | None = None
        try:
            while done is None:
                self._check_alive(step)
                done = running.wait(_POLL)
                for interval in running.reports():
                    intervals.append(interval)
                    # The counters' window lies between the first report and the last.
                    edge = len(intervals) == 1 or interval.elapsed > step.seconds - 1
                    samples.append(self._sampler().sample(whole=edge))
                    self.context.observer.tick(Tick(samples[-1].rss, interval.elapsed, interval.tps, interval.latency * 1e3))
                if time.monotonic() - samples[-1].clock > _LONGEST_GAP:
                    samples.append(self._sampler().sample())
                if time.monotonic() > deadline:
                    raise Fault("client", f"{step.title}: sysbench does not end {_OVERRUN:.0f} s after its time")
        finally:
            if done is None:
                running.kill()
        try:
            return running.result(done)
        except client.ClientFailed as error:
            # The client may notice the server's death before we do.
            if self._server().child.wait(2.0):
                raise self._death(f"at {step.title}") from None
            raise (self.examiner.disk() or Fault("client", f"{step.title}: {error}")) from None

    def _check_alive(self, step: Step) -> None:
        if self.context.stopping():
            raise Interrupted
        if self._server().child.poll():
            raise self._death(f"at {step.title}")

    # -- what is kept --------------------------------------------------------------------------------------------

    def _keep(self, gathered: Gathered) -> None:
        assert self.mark
        step = gathered.step
        self.record.steps.append(summary.step_row(gathered, self.t0))
        self.record.samples += [summary.sample_row(step.number, s, self.mark, self.t0) for s in gathered.samples]
        self.record.intervals += [summary.interval_row(step.number, i, self.t0) for i in gathered.intervals]
        if step.kind == "level":
            self.record.histograms += [{"step": step.number, "ms": ms, "count": count} for ms, count in gathered.histogram]

    def _take_mark(self, step: int) -> None:
        self.mark = marks.take(self._server().pid)
        self.record.marks.append(summary.mark_row(step, self.mark, self.t0))

    def _write_status(self, step: Step, when: str) -> None:
        try:
            status = self._server().admin.status()
        except pymysql.Error as error:
            if self._server().child.wait(2.0):
                raise self._death(f"at {step.title}") from None
            raise Fault("client", f"{step.title}: SHOW GLOBAL STATUS: {error.args[-1]}") from None
        _write_pairs(self.directory / f"status-{step.number:02}-{when}.tsv", status)

    # -- faults --------------------------------------------------------------------------------------------------

    def _note_fault(self, fault: Fault) -> None:
        if self.running and self.ended is None:
            self.running.admin.close()
            self.ended = self.running.child.poll() or self.running.child.stop(signal.SIGTERM, 20)
        self.record.trial |= {
            "outcome": "fault", "fault": fault.kind, "fault_text": str(fault),
            "exit_status": self.ended.status if self.ended else None, "log_tail": server.ending(self.log),
        }  # fmt: skip
        self.record.trial["rss_idle"] = None

    def _death(self, when: str) -> Fault:
        self.ended = self._server().child.wait(5)
        return self.examiner.death(when, self.ended)

    def _server(self) -> server.Running:
        if self.running is None:
            raise Failure("no server")
        return self.running

    def _sampler(self) -> ProcessSampler:
        assert self.sampler
        return self.sampler


def _write_pairs(path: Path, pairs: dict[str, Any]) -> None:
    path.write_text("".join(f"{k}\t{v}\n" for k, v in pairs.items()), encoding="utf-8")


def _blank() -> dict[str, Any]:
    """A row of table ``trial`` before anything has happened."""
    later = (
        "fault", "fault_text", "exit_status", "log_tail", "proof", "thp", "cpus", "seconds_to_start", "rss_start",
        "rss_peak", "rss_idle", "server_user", "server_system",
    )  # fmt: skip
    return {
        **dict.fromkeys(later), "started": time.time(), "seconds_planned": 0.0, "outcome": "ok", "sampler_cpu": 0.0,
        "samples": 0,
    }  # fmt: skip
