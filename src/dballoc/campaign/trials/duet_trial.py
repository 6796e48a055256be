"""One duet: baseline and partner alive at once, each with its own client on its own half of the
CPUs, swapped every slice.

Both servers start, and are warmed up, with all CPUs: allocators size their arenas by the CPUs that
they see, glibc's not before it has more than eight arenas. Only then is each, thread by thread,
moved to its half.
"""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pymysql

from dballoc.campaign.observer import Tick
from dballoc.campaign.preparation.prepare import DuetSetting
from dballoc.campaign.trials.fault import Fault
from dballoc.campaign.trials.server_in_trial import Context, Life, switch_thp
from dballoc.campaign.trials.solo_trial import client_fault
from dballoc.experiment.schedule import Pairing
from dballoc.experiment.trial_steps import Step, warmup_statements
from dballoc.host.resources import pin_threads
from dballoc.load import client
from dballoc.load.client_output import Interval, milliseconds
from dballoc.measure import cpu_idle_time
from dballoc.measure.process_sampler import Gone, Sample
from dballoc.measure.sample_while import sampling
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord

# The length of a slice's pieces, how often clients and servers are looked at between, and how long
# a client may take to say its first word.
PIECE = 0.25
_POLL = 0.05
_FIRST_WORD = 60.0


@dataclass(frozen=True)
class Slices:
    """How each workload is played: ``pairs`` of slices of ``seconds``, of whose starts ``discard``
    seconds do not count.
    """

    seconds: float
    pairs: int
    discard: float

    @property
    def pieces(self) -> int:
        """In a slice."""
        return max(1, round((self.seconds - self.discard) / PIECE))

    @property
    def total(self) -> float:
        """Seconds for a workload."""
        return 2 * self.pairs * self.seconds


class _Over(Exception):
    """One of the two has a fault, which is noted: the duet is over."""


@dataclass(frozen=True)
class _Reading:
    clock: float
    cpu: float
    questions: int


def run(
    context: Context,
    duet: DuetSetting,
    pairing: Pairing,
    slices: Slices,
    templates: tuple[Template, Template],
    directory: Path,
) -> tuple[TrialRecord, TrialRecord]:
    """Play one duet with its raw files in ``directory``; the records of baseline and partner.
    ``templates``: of both. Interrupted if the user stops; OSError if that disk is full.
    """
    playing = _Duet(context, duet, pairing, slices, templates, directory)
    try:
        return playing.run()
    finally:
        for side in playing.sides:
            side.life.clean_up()


class _Side:
    """A server with its client."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.client: client.Client | None = None
        self.intervals: list[Interval] = []

    @contextlib.contextmanager
    def blamed(self, when: str) -> Iterator[None]:
        """A fault in here is this side's; then the duet is over."""
        try:
            yield
        except Fault as fault:
            self.life.note_fault(fault)
        except Gone:
            self.life.note_fault(self.life.death(when))
        except pymysql.Error as error:
            self.life.note_fault(self.life.refused(error, when, "SHOW GLOBAL STATUS"))
        else:
            return
        raise _Over

    def check(self, when: str) -> None:
        """Fault if the server or its client has ended; takes in what the client reports."""
        self.life.check_alive(when)
        if self.client:
            self.intervals += self.client.reports()
            if done := self.client.wait(0):
                try:
                    self.client.result(done)
                except client.ClientFailed as error:
                    raise client_fault(self.life, when, error) from None
                raise Fault("client", f"{when}: {self.client.program} ended before its time")

    def read(self) -> _Reading:
        """The counters, each as of the middle of the moment in which the server is asked."""
        sampler, admin = self.life.sampler, self.life.running.admin
        before, cpu_before = time.monotonic(), sampler.cpu()
        questions = admin.questions()
        cpu_after, after = sampler.cpu(), time.monotonic()
        return _Reading((before + after) / 2, (cpu_before + cpu_after) / 2, questions)

    def look(self) -> None:
        """Note its highest RSS so far, for a server that may not be there when it is asked at the
        end.
        """
        trial = self.life.record.trial
        trial["rss_peak"] = max(trial["rss_peak"] or 0, self.life.sampler.sample().peak)

    def move(self, cpus: frozenset[int]) -> None:
        """Server and client, to these CPUs."""
        pin_threads.move(self.life.running.pid, cpus)
        if self.client:
            pin_threads.move(self.client.pid, cpus)


class _Duet:
    def __init__(
        self,
        context: Context,
        duet: DuetSetting,
        pairing: Pairing,
        slices: Slices,
        templates: tuple[Template, Template],
        directory: Path,
    ) -> None:
        self.context = context
        self.duet = duet
        self.pairing = pairing
        self.slices = slices
        self.experiment = context.setting.experiment
        names = self.experiment.baseline, pairing.variant
        self.thp, *switched_off = duet.thp[pairing.variant]
        self.sides: list[_Side] = []
        for name, template, off, side in zip(
            names, templates, switched_off, ("baseline", "partner"), strict=True
        ):
            raw = directory / side
            raw.mkdir()
            self.sides.append(
                _Side(Life(context, name, template, raw, duet.halves[0] | duet.halves[1], off))
            )
        # Whatever is done to both, one after the other, is done in this order.
        self.order = self.sides[:: -1 if pairing.first else 1]

    def run(self) -> tuple[TrialRecord, TrialRecord]:
        try:
            host_thp = switch_thp(self.context, self.thp)
            for side in self.sides:
                side.life.host_thp = host_thp
            for side in self.order:
                with side.blamed("its start"):
                    side.life.begin()
            for side in self.order:
                with side.blamed("its start"):
                    side.life.ready()
            self._warm_up_by_sql()
            for number, workload in enumerate(self.experiment.workloads, 1):
                self._play(number, workload)
            for side in self.order:
                with side.blamed("its last sample"):
                    side.look()
            for side in self.order:
                with side.blamed("its shutdown"):
                    side.life.ask_to_stop()
            for side in self.order:
                with side.blamed("its shutdown"):
                    side.life.end()
        except _Over:
            for side in self.sides:
                side.life.record.slices = [
                    row for row in side.life.record.slices if not math.isnan(row["events"])
                ]
        baseline, partner = (side.life.finish() for side in self.sides)
        return baseline, partner

    def _warm_up_by_sql(self) -> None:
        for sql in warmup_statements(self.experiment, self.context.setting.contents.tables):
            for side in self.order:
                with side.blamed(sql):
                    samples: list[Sample] = []
                    try:
                        with sampling(side.life.sampler, samples):
                            side.life.running.admin.scan(sql)
                    except pymysql.Error as error:
                        side.life.record.trial["rss_peak"] = max(
                            (s.peak for s in samples), default=None
                        )
                        raise side.life.refused(error, sql, "warmup_sql") from None

    def _play(self, number: int, workload: str) -> None:
        step = Step(
            number=number,
            kind="slices",
            seconds=self.slices.total,
            workload=workload,
            threads=self.duet.threads,
        )
        self.context.observer.step_started(step)
        seconds = self.experiment.duet_warmup + self.slices.total
        try:
            for side in self.order:
                self._start_client(side, step, seconds)
            self._warm_up(step)
            for n in range(2 * self.slices.pairs):
                self._slice(step, n)
            for side in self.order:
                with side.blamed(step.title):
                    self._count_events(side, step)
        finally:
            for side in self.order:
                if side.client:
                    side.client.kill()
                    side.client = None
        for side in self.order:
            side.move(self.duet.halves[0] | self.duet.halves[1])
            side.life.record.trial["seconds_planned"] += seconds

    def _start_client(self, side: _Side, step: Step, seconds: float) -> None:
        assert step.workload and step.threads
        life = side.life
        # It is ended by us; twice the time, and a minute, in case that all of this is slow.
        engine = life.prepared.server.engine
        job = client.Job(
            workload=step.workload,
            threads=step.threads,
            seconds=2 * seconds + 60,
            data=self.experiment.data,
            engine=engine,
            load=self.experiment.load,
            program=life.prepared.programs.get(step.workload),
        )
        side.intervals = []
        side.client = client.start(
            self.context.custody,
            self.context.setting.user,
            self.context.setting.sysbench,
            job,
            life.client_places(),
            life.directory,
            f"{step.number:02}-{step.title.replace(' ', '-')}",
            self.duet.halves[0] | self.duet.halves[1],
        )

    def _warm_up(self, step: Step) -> None:
        """Until the warm-up's time is over and both clients have reported, so that all their
        threads are connected.
        """
        began = time.monotonic()
        while True:
            elapsed = time.monotonic() - began
            if elapsed >= self.experiment.duet_warmup and all(
                side.intervals for side in self.sides
            ):
                return
            for side in self.order:
                with side.blamed(step.title):
                    side.check(step.title)
                    side.look()
                    if elapsed > self.experiment.duet_warmup + _FIRST_WORD and not side.intervals:
                        raise Fault(
                            "client",
                            f"{step.title}: sysbench has not said a word in {elapsed:.0f} s",
                        )
            time.sleep(_POLL)

    def _slice(self, step: Step, number: int) -> None:
        halves = [self.duet.halves[half] for half in self.pairing.halves(number)]
        began = time.monotonic()
        for i in self._turn(number):
            self.sides[i].move(halves[i])
            # In the part of the slice that does not count.
            with self.sides[i].blamed(step.title):
                self.sides[i].look()
        self._wait(step, began + self.slices.discard)
        before, idle_before = self._read(step, number), cpu_idle_time.read()
        length = (self.slices.seconds - self.slices.discard) / self.slices.pieces
        for piece in range(self.slices.pieces):
            self._wait(step, began + self.slices.discard + (piece + 1) * length)
            after, idle_after = self._read(step, number + piece + 1), cpu_idle_time.read()
            for i, side in enumerate(self.sides):
                a, b = before[i], after[i]
                side.life.record.slices.append(
                    {
                        "workload": step.workload,
                        "slice": number,
                        "piece": piece,
                        "half": self.duet.halves.index(halves[i]),
                        "t": a.clock - side.life.t0,
                        "seconds": b.clock - a.clock,
                        "queries": b.questions - a.questions - 1,  # our own asking
                        "events": math.nan,
                        "cpu": b.cpu - a.cpu,
                        "idle": cpu_idle_time.share(
                            idle_before, idle_after, halves[i], b.clock - a.clock
                        ),
                    }
                )
            before, idle_before = after, idle_after
            self._tell(step, number)

    def _tell(self, step: Step, number: int) -> None:
        partner = self.sides[1]
        latest = partner.intervals[-1]
        elapsed = number * self.slices.seconds
        rss = partner.life.mark.rss if partner.life.mark else 0
        self.context.observer.tick(Tick(rss, elapsed, latest.tps, milliseconds(latest.latency)))

    def _turn(self, number: int) -> tuple[int, int]:
        """Which side is asked first, by turns: what we do between, we do on the CPU where the last
        answer woke us.
        """
        return (0, 1) if (self.pairing.first + number) % 2 == 0 else (1, 0)

    def _read(self, step: Step, number: int) -> dict[int, _Reading]:
        readings = {}
        for i in self._turn(number):
            with self.sides[i].blamed(step.title):
                readings[i] = self.sides[i].read()
        return readings

    def _wait(self, step: Step, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 4 * _POLL))
            for side in self.order:
                with side.blamed(step.title):
                    side.check(step.title)

    def _count_events(self, side: _Side, step: Step) -> None:
        """A server counts statements; how many of them make a transaction, its client knows."""
        events, queries = (
            sum(getattr(i, what) for i in side.intervals) for what in ("events", "queries")
        )
        if not events:
            raise Fault("client", f"{step.title}: not one transaction ended")
        if not queries:
            raise Fault(
                "client",
                f"{step.title}: sysbench itself asked nothing, by which a duet counts; use "
                "--design solo",
            )
        for row in side.life.record.slices:
            if row["workload"] == step.workload:
                row["events"] = row["queries"] * events / queries
