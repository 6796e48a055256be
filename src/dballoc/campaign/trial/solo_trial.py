"""One solo trial: start the server, run the steps, stop it. A fault is a result, not an error."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pymysql

from dballoc.campaign.observer import Tick
from dballoc.campaign.trial import profiling, trial_rows
from dballoc.campaign.trial.client_host import ClientHost, DistantClient
from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.host_thp import switch_thp
from dballoc.campaign.trial.primary import Primary
from dballoc.campaign.trial.replica import (
    ReplicaServer,
    ReplicaStep,
    describe_lag,
    make_replica_row,
    make_total,
)
from dballoc.campaign.trial.server_in_trial import ServerLife, TrialContext
from dballoc.campaign.trial.settling import SettlingFailed, begin_settling, end_settling
from dballoc.campaign.trial.trial_rows import StepMeasurements
from dballoc.experiment.schedule import Slot
from dballoc.experiment.trial_steps import Step, plan_probe_steps, plan_steps, sum_planned_seconds
from dballoc.ground.files.output_directory import OutputDirectory, write_own
from dballoc.host.guardian.guardian_client import Exit
from dballoc.instruments import host_sampler
from dballoc.instruments.process_sampler import ProcessGone, ProcessSample, sample_in_background
from dballoc.instruments.ways_in.preload_socket import HEAP_PROBE, PreloadKind
from dballoc.load import client
from dballoc.load.client_output import Total, milliseconds
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord
from dballoc.store.rows import HistogramRow, SampleRow, StepRow

# Seconds between two looks at the client's report file and both processes, and how many seconds a
# client may overrun.
_POLL = 0.05
_OVERRUN = 60.0
# Seconds that loading all tables may take.
_WHOLE_LOAD = 24 * 3600.0
# A sample follows every report of the load; without a report, one is taken after this many seconds.
_LONGEST_GAP = 1.25
# A client on another host reports at its end, so samples follow the clock. The counters' window
# lies between its first report, a second after its begin, and its last, about one before its end.
_SAMPLE_EVERY = 1.0
_EDGE = 3.0


def run_trial(
    context: TrialContext, slot: Slot, template: Template, directory: Path
) -> TrialRecord:
    """Run one trial with its raw files in ``directory``. Raises Interrupted if the user stops
    dballoc; OSError if that disk is full.
    """
    return _run_and_clean_up(SoloTrial(context, slot, template, directory))


def run_heap_profile(
    context: TrialContext, slot: Slot, template: Template, directory: Path
) -> None:
    """Start the variant once more, under the heap probe and its load, and keep its profiles in the
    trial's directory; a fault there does not count. Raises Interrupted and OSError as for
    :func:`run_trial`.
    """
    heap_directory = directory / "heap"
    OutputDirectory.open(heap_directory).close()
    experiment, tables = context.setting.experiment, context.setting.contents.tables
    probed = SoloTrial(
        context,
        slot,
        template,
        heap_directory,
        instrument=HEAP_PROBE,
        steps=plan_probe_steps(experiment, slot, tables),
    )
    record = _run_and_clean_up(probed).trial
    if record.outcome == "fault":
        context.observer.notice(f"{slot.variant}: no heap profile: {record.fault_text}")
        write_own(heap_directory / "heap.txt", f"{record.fault_text}\n")


def _run_and_clean_up(trial: "SoloTrial") -> TrialRecord:
    try:
        return trial.run()
    finally:
        trial.clean_up()


# Called after the start (no step) and after each step, with the most bytes of RSS in it.
Watch = Callable[[ServerLife, Step | None, int], None]


class SoloTrial:
    """One start of one variant with its steps, measured or under an ``instrument``. ``steps``: None
    for those of a measured trial; ``watch``: told of the steps.
    """

    def __init__(
        self,
        context: TrialContext,
        slot: Slot,
        template: Template,
        directory: Path,
        *,
        instrument: PreloadKind | None = None,
        steps: Sequence[Step] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.context = context
        self.prepared = context.setting.variants[slot.variant]
        self.life = ServerLife(
            context,
            slot.variant,
            template,
            directory,
            cpus=self.prepared.server_cpus,
            instrument=instrument,
        )
        self.experiment = context.setting.experiment
        self.primary: Primary | None = None
        self.replica: ReplicaServer | None = None
        if context.setting.has_replica:
            self.life.has_clients = False
            self.primary = Primary(
                context.custody, context.setting.user, self.prepared, template, directory
            )
            self.replica = ReplicaServer(self.life, self.primary, self.experiment.replica.catch_up)
        is_probed = instrument is HEAP_PROBE
        self.profile = profiling.profile_heap if is_probed else profiling.profile_contention
        tables = context.setting.contents.tables
        self.steps = list(steps or plan_steps(self.experiment, slot, tables))
        self.watch = watch
        self.last_load = next((s for s in reversed(self.steps) if s.kind == "level"), None)
        self.record = self.life.record

    def run(self) -> TrialRecord:
        """Run the steps. A fault of the server is in the record."""
        when = "its start"
        try:
            self.life.host_thp = switch_thp(
                self.context.custody, self.context.setting, self.prepared.variant.host_settings
            )
            self._start_servers()
            if self.watch:
                self.watch(self.life, None, 0)
            for step in self.steps:
                when = step.title
                self._run_step(step)
            self.life.shut_down()
        except Fault as fault:
            self.life.note_fault(fault)
        except ProcessGone:
            self.life.note_fault(self.life.explain_death(when))
        row = self.life.finish().trial
        peaks = [step.rss_peak or 0 for step in self.record.select(StepRow)]
        peaks += [sample.rss for sample in self.record.select(SampleRow)]
        row.rss_peak = max(peaks) if peaks else None
        return self.record

    def clean_up(self) -> None:
        """Stop what still runs and remove the scratch data."""
        try:
            self.life.clean_up()
        finally:
            if self.primary:
                self.primary.clean_up()

    def _start_servers(self) -> None:
        if self.primary:
            self.primary.start()
        self.life.start()
        self.life.wait_until_ready()
        if self.primary and self.replica:
            self.primary.wait_until_ready(self.experiment.time.start, self.experiment.data.database)
            self.replica.connect()

    def _run_step(self, step: Step) -> None:
        self.context.observer.step_started(step)
        if step.kind == "profile":
            self.profile(
                self.life, self._start_client(step, step.seconds + profiling.EXTRA_SECONDS), step
            )
            self.record.trial.seconds_planned = sum_planned_seconds(self.steps[: step.number])
            return
        sampler = self.life.sampler
        reset = sampler.reset_peak()
        self.life.write_status(f"{step.number:02}-before", step.title)
        series = StepMeasurements(step=step, started=time.monotonic())
        self._take_sample(series, every_thread=True)
        series.readings += self.life.read_counters()
        try:
            match step.kind:
                case "sql":
                    self._run_query(series)
                case "settle":
                    self._settle(series)
                case "idle":
                    self._stay_idle(step.seconds, series)
                case _:
                    self._run_load(series)
            self._take_sample(series, every_thread=True)
        except (Fault, ProcessGone):
            # The last samples show why a server was killed.
            self._keep_series(series)
            raise
        self.life.write_status(f"{step.number:02}-after", step.title)
        # The kernel's own peak lags by a few pages: it counts in batches.
        last_peak = series.samples[-1].peak if reset else 0
        series.rss_peak = max(*(s.rss for s in series.samples), last_peak)
        series.ended = time.monotonic()
        self._keep_step(series)
        self.record.trial.seconds_planned = sum_planned_seconds(self.steps[: step.number])
        self.life.take_mark(step.number)
        if self.watch:
            self.watch(self.life, step, series.rss_peak)
        if step is self.last_load:
            self.life.keep_ledger()
        if step.kind == "idle" and self.life.mark:
            self.record.trial.rss_idle = self.life.mark.rss
        self.life.empty_binary_log(step.title)

    def _take_sample(self, series: StepMeasurements, every_thread: bool = False) -> ProcessSample:
        """Take a sample of the server and one of the host, and return the server's."""
        sample = self.life.sampler.sample(every_thread)
        series.samples.append(sample)
        series.host.append(host_sampler.take_host_sample())
        return sample

    def _run_query(self, series: StepMeasurements) -> None:
        sql = series.step.sql
        assert sql
        with (
            self.life.ask(sql, "warmup_sql"),
            sample_in_background(lambda: self._take_sample(series)),
        ):
            self.life.running.admin.scan(sql)

    def _stay_idle(self, seconds: float, series: StepMeasurements) -> None:
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            self.life.check_alive(series.step.title)
            self.life.running.child.wait(min(1.0, remaining))
            rss = self._take_sample(series).rss
            self.context.observer.tick(Tick(rss, seconds - max(0.0, end - time.monotonic())))

    def _settle(self, series: StepMeasurements) -> None:
        """Let the server finish the work left by writes, for the step's time at least."""
        end = time.monotonic() + series.step.seconds
        admin, engine = self.life.running.admin, self.prepared.server.engine
        count = self.experiment.data.tables if self.context.setting.contents.tables else 0
        try:
            with sample_in_background(lambda: self._take_sample(series)):
                tables = [f"sbtest{n}" for n in range(1, count + 1)]
                settling = begin_settling(admin, engine, tables)
            self.record.settled_otherwise |= settling.otherwise
            self._stay_idle(max(0.0, end - time.monotonic()), series)
            end_settling(admin, settling)
        except SettlingFailed as failure:
            error = failure.__cause__
            assert isinstance(error, pymysql.Error)
            raise self.life.explain_refusal(error, series.step.title, failure.statement) from None

    def _start_distant_client(self, step: Step, host: ClientHost) -> DistantClient:
        engine, raw = self.prepared.server.engine, self.life.directory
        running = host.start_client(step, engine, self.life.address, raw)
        self.life.connections.own_connections += running.own_connections
        return running

    def _start_client(self, step: Step, seconds: float) -> client.Client:
        """Start the client of a step on this host; it runs for ``seconds``."""
        places = self.primary.write_client_files() if self.primary else None
        return self.life.start_client(step, seconds, self.prepared.client_cpus, places)

    def _run_load(self, series: StepMeasurements) -> None:
        step = series.step
        begin = self.replica.read_progress(step.title) if self.replica else None
        progress = ReplicaStep([begin]) if begin else None
        host = self.context.client_host
        distant = self._start_distant_client(step, host) if host else None
        running: client.RunningClient = distant or self._start_client(step, step.seconds)
        began = time.monotonic()
        deadline = began + (step.seconds + _OVERRUN if step.seconds else _WHOLE_LOAD)
        ended: Exit | None = None
        try:
            while ended is None:
                self.life.check_alive(step.title)
                ended = running.wait(_POLL)
                self._collect_reports(series, running, progress)
                if not running.reports_live:
                    self._sample_by_clock(series, time.monotonic() - began)
                if time.monotonic() > deadline:
                    late = f"{running.program} still runs {_OVERRUN:.0f} s after its planned end"
                    raise self._explain_client(step, client.ClientFailed(late))
        finally:
            if ended is None:
                running.kill()
        if distant and (row := distant.make_row()):
            self.record.rows.append(row)
        try:
            result = running.result(ended)
        except client.ClientFailed as error:
            raise self._explain_client(step, error) from None
        series.total, series.histogram = result.total, result.histogram
        if progress:
            self._finish_replica(series, progress, result.total)

    def _collect_reports(
        self,
        series: StepMeasurements,
        running: client.RunningClient,
        progress: ReplicaStep | None,
    ) -> None:
        """Take a sample for every report of the client that has come, and when the last is old."""
        step, intervals = series.step, series.intervals
        if not running.reports_live:
            intervals += running.reports()
            return
        for report in running.reports():
            interval = report
            if self.replica and progress:
                self.replica.check(step.title)
                interval = progress.add(self.replica.read_progress(step.title), report)
            intervals.append(interval)
            # The counters' window lies between the first report and the last. A load that
            # ends by itself (seconds 0) may end with any of them.
            edge = len(intervals) == 1 or interval.elapsed > step.seconds - 1
            sample = self._take_sample(series, every_thread=edge)
            series.readings += self.life.read_counters()
            self.context.observer.tick(
                Tick(
                    sample.rss,
                    interval.elapsed,
                    interval.tps,
                    milliseconds(interval.latency),
                )
            )
        if time.monotonic() - series.samples[-1].clock > _LONGEST_GAP:
            self._take_sample(series)

    def _sample_by_clock(self, series: StepMeasurements, elapsed: float) -> None:
        """Take a sample a second; ``elapsed``: seconds since the client was started."""
        if time.monotonic() - series.samples[-1].clock < _SAMPLE_EVERY:
            return
        edge = not _EDGE < elapsed < series.step.seconds - _EDGE
        sample = self._take_sample(series, every_thread=edge)
        series.readings += self.life.read_counters()
        self.context.observer.tick(Tick(sample.rss, elapsed))

    def _explain_client(self, step: Step, error: client.ClientFailed) -> Exception:
        """Return why the load failed: a fault of the server, or a failure of its primary."""
        if self.primary:
            return self.primary.explain_client(step.title, error)
        return explain_client_failure(self.life, step.title, error)

    def _finish_replica(
        self, series: StepMeasurements, progress: ReplicaStep, total: Total
    ) -> None:
        """Wait for the replica, and take what it applied as the step's totals."""
        step = series.step
        assert self.replica
        self.replica.finish_load(progress, step.title, lambda: self._take_sample(series))
        row = make_replica_row(step.number, progress, total)
        self.record.rows.append(row)
        if step.kind == "level" and (sentence := describe_lag(row)):
            self.context.observer.notice(f"{self.prepared.variant.name}, {step.title}: {sentence}")
        series.total, series.histogram = make_total(progress, total), []

    def _keep_step(self, series: StepMeasurements) -> None:
        number, rows = series.step.number, self.record.rows
        rows.append(trial_rows.make_step_row(series, self.life.t0))
        rows += trial_rows.make_host_step_rows(series)
        self._keep_series(series)
        if series.step.kind == "level":
            rows += trial_rows.make_step_counter_rows(series, self.life.counted_events)
            rows += [HistogramRow(step=number, ms=ms, count=n) for ms, n in series.histogram]

    def _keep_series(self, series: StepMeasurements) -> None:
        number, mark, t0 = series.step.number, self.life.mark, self.life.t0
        assert mark
        rows = self.record.rows
        rows += [trial_rows.make_sample_row(number, s, mark, t0) for s in series.samples]
        rows += [trial_rows.make_host_sample_row(number, s, t0) for s in series.host]
        rows += [trial_rows.make_interval_row(number, i, t0) for i in series.intervals]


def explain_client_failure(life: ServerLife, when: str, error: client.ClientFailed) -> Fault:
    """Return why a client failed: the server died, which the client may notice first, the disk is
    full, or the client's own message.
    """
    if life.running.child.wait(2.0):
        return life.explain_death(when)
    return life.examiner.find_full_disk() or Fault("client", f"{when}: {error}")
