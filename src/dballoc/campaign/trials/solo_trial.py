"""One solo trial: start, run the steps, stop. A fault on the way is a result, not an error."""

import time
from collections.abc import Sequence
from pathlib import Path

import pymysql

from dballoc.campaign.observer import Tick
from dballoc.campaign.trials import profiling, trial_rows
from dballoc.campaign.trials.fault import Fault
from dballoc.campaign.trials.server_in_trial import Context, Life, switch_thp
from dballoc.campaign.trials.trial_rows import Gathered
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import Step, cycle, idle_or_load_seconds, under_probe
from dballoc.host.guardian.guardian_client import Exit
from dballoc.load import client
from dballoc.load.client_output import Interval, milliseconds
from dballoc.measure.process_sampler import Gone, Sample
from dballoc.measure.sample_while import sampling
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord

# How often the client's report file and both processes are looked at, and how long a client may
# overrun.
_POLL = 0.05
_OVERRUN = 60.0
# What the load of all tables may take.
_WHOLE_LOAD = 24 * 3600.0
# A sample follows every report of the load; where none comes, one is taken after this many seconds.
_LONGEST_GAP = 1.25


def run(context: Context, slot: Slot, template: Template, directory: Path) -> TrialRecord:
    """Run one trial with its raw files in ``directory``. Interrupted if the user stops; OSError if
    that disk is full.
    """
    return _run(_Trial(context, slot, template, directory))


def profile_heap(context: Context, slot: Slot, template: Template, directory: Path) -> None:
    """Start the variant once more, under the heap probe, with its load; its profiles are kept in
    the trial's directory, and what becomes of it otherwise is no result. Interrupted and OSError as
    for :func:`run`.
    """
    own = directory / "heap"
    own.mkdir()
    record = _run(_Trial(context, slot, template, own, probed=True)).trial
    if record["outcome"] == "fault":
        context.observer.notice(f"{slot.variant}: no heap profile: {record['fault_text']}")
        (own / "heap.txt").write_text(f"{record['fault_text']}\n", encoding="utf-8")


def _run(trial: "_Trial") -> TrialRecord:
    try:
        return trial.run()
    finally:
        trial.life.clean_up()


class _Trial:
    def __init__(
        self,
        context: Context,
        slot: Slot,
        template: Template,
        directory: Path,
        probed: bool = False,
    ) -> None:
        self.context = context
        self.prepared = context.setting.variants[slot.variant]
        self.life = Life(
            context, slot.variant, template, directory, self.prepared.server_cpus, probed=probed
        )
        self.experiment = context.setting.experiment
        self.profile = profiling.heap if probed else profiling.contention
        steps = under_probe if probed else cycle
        self.steps = steps(self.experiment, slot, context.setting.contents.tables)
        self.last_load = next((s for s in reversed(self.steps) if s.kind == "level"), None)
        self.cost = 0.0
        self.record = self.life.record

    def run(self) -> TrialRecord:
        when = "its start"
        try:
            self.life.host_thp = switch_thp(self.context, self.prepared.variant.thp)
            self.life.begin()
            self.life.ready()
            for step in self.steps:
                when = step.title
                self._step(step)
            self.life.end()
        except Fault as fault:
            self.life.note_fault(fault)
        except Gone:
            self.life.note_fault(self.life.death(when))
        row = self.life.finish().trial
        row["sampler_cpu"] = self.cost
        peaks = [s["rss_peak"] for s in self.record.steps] + [s["rss"] for s in self.record.samples]
        row["rss_peak"] = max(peaks) if peaks else None
        return self.record

    def _step(self, step: Step) -> None:
        self.context.observer.step_started(step)
        if step.kind == "profile":
            self.profile(self.life, self._start(step, step.seconds + profiling.EXTRA), step)
            self.record.trial["seconds_planned"] = idle_or_load_seconds(self.steps[: step.number])
            return
        sampler = self.life.sampler
        reset = sampler.reset_peak()
        self.life.write_status(f"{step.number:02}-before", step.title)
        started = time.monotonic()
        cost = time.thread_time()
        samples = [sampler.sample(whole=True)]
        intervals: list[Interval] = []
        result: client.Result | None = None
        try:
            match step.kind:
                case "sql":
                    self._query(step, samples)
                case "idle":
                    self._idle(step, samples)
                case _:
                    result = self._load(step, samples, intervals)
            samples.append(sampler.sample(whole=True))
        except (Fault, Gone):
            # What was seen last is what one wants to know of a server that was killed.
            self._keep_series(step, samples, intervals)
            raise
        self.cost += time.thread_time() - cost
        self.life.write_status(f"{step.number:02}-after", step.title)
        # The kernel's own peak lags by a few pages: it counts in batches.
        peak = max(*(s.rss for s in samples), samples[-1].peak if reset else 0)
        total, histogram = (result.total, result.histogram) if result else (None, [])
        gathered = Gathered(
            step=step,
            started=started,
            ended=time.monotonic(),
            samples=samples,
            intervals=intervals,
            total=total,
            histogram=histogram,
            rss_peak=peak,
        )
        self._keep(gathered)
        self.record.trial["seconds_planned"] = idle_or_load_seconds(self.steps[: step.number])
        self.life.take_mark(step.number)
        if step is self.last_load:
            self.life.keep_ledger()
        if step.kind == "idle" and self.life.mark:
            self.record.trial["rss_idle"] = self.life.mark.rss

    def _query(self, step: Step, samples: list[Sample]) -> None:
        assert step.sql
        before = self.life.sampler.cost
        try:
            with sampling(self.life.sampler, samples):
                self.life.running.admin.scan(step.sql)
            self.cost += self.life.sampler.cost - before
        except pymysql.Error as error:
            raise self.life.refused(error, step.sql, "warmup_sql") from None

    def _idle(self, step: Step, samples: list[Sample]) -> None:
        end = time.monotonic() + step.seconds
        while (left := end - time.monotonic()) > 0:
            self.life.check_alive(step.title)
            self.life.running.child.wait(min(1.0, left))
            samples.append(self.life.sampler.sample())
            self.context.observer.tick(
                Tick(samples[-1].rss, step.seconds - max(0.0, end - time.monotonic()))
            )

    def _start(self, step: Step, seconds: float) -> client.Client:
        """The client of a step."""
        assert step.workload and step.threads
        engine = self.prepared.server.engine
        job = client.Job(
            workload=step.workload,
            threads=step.threads,
            seconds=seconds,
            data=self.experiment.data,
            engine=engine,
            load=self.experiment.load,
            program=self.prepared.programs.get(step.workload),
        )
        name = f"{step.number:02}-{step.title.replace(' ', '-')}"
        return client.start(
            self.context.custody,
            self.context.setting.user,
            self.context.setting.sysbench,
            job,
            self.life.client_places(),
            self.life.directory,
            name,
            self.prepared.client_cpus,
        )

    def _load(self, step: Step, samples: list[Sample], intervals: list[Interval]) -> client.Result:
        running = self._start(step, step.seconds)
        deadline = time.monotonic() + (step.seconds + _OVERRUN if step.seconds else _WHOLE_LOAD)
        done: Exit | None = None
        try:
            while done is None:
                self.life.check_alive(step.title)
                done = running.wait(_POLL)
                for interval in running.reports():
                    intervals.append(interval)
                    # The counters' window lies between the first report and the last.
                    edge = (
                        len(intervals) == 1 or interval.elapsed > step.seconds - 1
                    )  # without a known end each may be the last
                    samples.append(self.life.sampler.sample(whole=edge))
                    self.context.observer.tick(
                        Tick(
                            samples[-1].rss,
                            interval.elapsed,
                            interval.tps,
                            milliseconds(interval.latency),
                        )
                    )
                if time.monotonic() - samples[-1].clock > _LONGEST_GAP:
                    samples.append(self.life.sampler.sample())
                if time.monotonic() > deadline:
                    raise Fault(
                        "client",
                        f"{step.title}: {running.program} does not end {_OVERRUN:.0f} s after its "
                        "time",
                    )
        finally:
            if done is None:
                running.kill()
        try:
            return running.result(done)
        except client.ClientFailed as error:
            raise client_fault(self.life, step.title, error) from None

    def _keep(self, gathered: Gathered) -> None:
        step = gathered.step
        self.record.steps.append(trial_rows.step_row(gathered, self.life.t0))
        self._keep_series(step, gathered.samples, gathered.intervals)
        if step.kind == "level":
            self.record.histograms += [
                {"step": step.number, "ms": ms, "count": count} for ms, count in gathered.histogram
            ]

    def _keep_series(
        self, step: Step, samples: Sequence[Sample], intervals: Sequence[Interval]
    ) -> None:
        mark, t0 = self.life.mark, self.life.t0
        assert mark
        self.record.samples += [trial_rows.sample_row(step.number, s, mark, t0) for s in samples]
        self.record.intervals += [trial_rows.interval_row(step.number, i, t0) for i in intervals]


def client_fault(life: Life, when: str, error: client.ClientFailed) -> Fault:
    """Why a client failed: the server's death, which it may notice before we do, a full disk, or
    what it said.
    """
    if life.running.child.wait(2.0):
        return life.death(when)
    return life.examiner.disk() or Fault("client", f"{when}: {error}")
