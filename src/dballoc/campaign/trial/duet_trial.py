"""One duet: baseline and partner alive at once, each with its own client on its own half of the
CPUs, swapped every slice.

Both servers start, and are warmed up, with all CPUs: allocators size their arenas by the CPUs that
they see, glibc's not before it has more than eight arenas. Only then is each, thread by thread,
moved to its half.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from dballoc.campaign.observer import Tick
from dballoc.campaign.preparation.prepare_duet import PreparedDuet
from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.host_thp import switch_thp
from dballoc.campaign.trial.loaded_server import (
    LoadedServer,
    ServerFailed,
    cleaning_up,
    warm_up_by_sql,
)
from dballoc.campaign.trial.server_in_trial import ServerLife, TrialContext, keep_host_step
from dballoc.experiment.schedule import Pairing
from dballoc.experiment.trial_steps import Step
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.host.resources.cpus import move_threads
from dballoc.instruments import host_sampler
from dballoc.instruments.server_counters import Reading, scale_counts
from dballoc.load.client_output import milliseconds
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord
from dballoc.store.rows import SliceCounterRow, SliceRow

# Seconds: the usual length of a slice's pieces, the time between two looks at clients and servers,
# and how long a client may take until its first report.
PIECE = 0.25
_POLL = 0.05
_FIRST_REPORT = 60.0


_Seconds = Annotated[float, Field(ge=0, le=1e6)]
_Count = Annotated[int, Field(ge=0, le=10**9)]


@dataclass(frozen=True)
class Slices:
    """The slices of each workload: ``pairs`` pairs of slices of ``seconds``; the first ``discard``
    seconds of a slice do not count. ``least_pieces``: the fewest readings in a slice.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    seconds: _Seconds
    pairs: _Count
    discard: _Seconds
    least_pieces: _Count = 1

    @property
    def pieces(self) -> int:
        """Pieces in a slice."""
        return max(self.least_pieces, round((self.seconds - self.discard) / PIECE))

    @property
    def total(self) -> float:
        """Seconds of all slices of a workload."""
        return 2 * self.pairs * self.seconds


@dataclass(frozen=True)
class _ServerCounts:
    """A server's CPU seconds and statements at the moment ``clock`` (CLOCK_MONOTONIC), and a
    reading of its perf events where the host counts them.
    """

    clock: float
    cpu: float
    questions: int
    reading: list[Reading]


def run_trial(
    context: TrialContext,
    duet: PreparedDuet,
    pairing: Pairing,
    slices: Slices,
    templates: Sequence[Template],
    directory: Path,
) -> list[TrialRecord]:
    """Run one duet with its raw files in ``directory``; returns the records of baseline and
    partner. ``templates``: those of baseline and partner. Raises Interrupted if the user stops
    dballoc; OSError if that disk is full.
    """
    trial = _RunningDuet(
        context=context,
        duet=duet,
        pairing=pairing,
        slices=slices,
        templates=templates,
        directory=directory,
    )
    with cleaning_up(trial.sides):
        return trial.run()


class _DuetSide(LoadedServer):
    """A server with its client on a half of the CPUs."""

    def read_counters(self) -> _ServerCounts:
        """Read the counters; clock and CPU are those of the middle of the server's answer."""
        sampler, admin = self.life.sampler, self.life.running.admin
        before, cpu_before = time.monotonic(), sampler.cpu()
        questions = admin.questions()
        cpu_after, after = sampler.cpu(), time.monotonic()
        # Last, so that the reading itself is not measured.
        reading = self.life.read_counters()
        return _ServerCounts((before + after) / 2, (cpu_before + cpu_after) / 2, questions, reading)

    def keep_counts(
        self, place: Mapping[str, Any], before: _ServerCounts, after: _ServerCounts
    ) -> None:
        """Keep what was counted between two readings. ``place``: workload, slice and piece."""
        for first, last in zip(before.reading, after.reading, strict=True):
            counts = scale_counts(self.life.counted_events, first, last)
            self.life.record.rows += [SliceCounterRow(**place, **vars(count)) for count in counts]

    def move_to(self, cpus: frozenset[int], client_cpus: frozenset[int]) -> None:
        """Move the server and its client to their CPUs, thread by thread."""
        move_threads(self.life.running.child.pid, cpus)
        if self.client:
            move_threads(self.client.pid, client_cpus)


@dataclass(kw_only=True)
class _RunningDuet:
    """Both servers of a duet, and the slices that are played on them."""

    context: TrialContext
    duet: PreparedDuet
    pairing: Pairing
    slices: Slices
    templates: Sequence[Template]
    directory: Path

    def __post_init__(self) -> None:
        self.experiment = self.context.setting.experiment
        self.cpus = self.duet.cpus
        self.shared_host = self.duet.thp[self.pairing.variant]
        self.sides: list[_DuetSide] = []
        for (name, _), template, off, side in zip(
            self.pairing.servers,
            self.templates,
            self.shared_host.switched_off,
            ("baseline", "partner"),
            strict=True,
        ):
            raw = self.directory / side
            OutputDirectory.open(raw).close()
            cpus = self.cpus.servers
            life = ServerLife(self.context, name, template, raw, cpus=cpus, thp_disable=off)
            self.sides.append(_DuetSide(life))
        # The order in which things are done to both servers, one after the other.
        self.order = self.sides[:: -1 if self.pairing.first else 1]

    def run(self) -> list[TrialRecord]:
        try:
            host_thp = switch_thp(
                self.context.custody, self.context.setting, self.shared_host.settings
            )
            for side in self.sides:
                side.life.host_thp = host_thp
            for side in self.order:
                with side.note_faults("its start"):
                    side.life.start()
            for side in self.order:
                with side.note_faults("its start"):
                    side.life.wait_until_ready()
            for side in self.order:
                warm_up_by_sql(self.context, side)
            for number, workload in enumerate(self.experiment.workloads, 1):
                self._run_workload(number, workload)
            for side in self.order:
                with side.note_faults("its last sample"):
                    side.note_memory_peak()
            for side in self.order:
                with side.note_faults("its shutdown"):
                    side.life.ask_to_stop()
            for side in self.order:
                with side.note_faults("its shutdown"):
                    side.life.shut_down()
        except ServerFailed:  # and the duet is over
            for side in self.sides:
                record = side.life.record
                slices = [row for row in record.select(SliceRow) if not math.isnan(row.events)]
                counted = {row.workload for row in slices}
                counters = [c for c in record.select(SliceCounterRow) if c.workload in counted]
                record.remove(SliceRow, SliceCounterRow)
                record.rows += [*slices, *counters]
        return [side.life.finish() for side in self.sides]

    def _run_workload(self, number: int, workload: str) -> None:
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
            host = [host_sampler.take_host_sample()]
            for slice_number in range(2 * self.slices.pairs):
                self._run_slice(step, slice_number)
            host.append(host_sampler.take_host_sample())
            keep_host_step([side.life for side in self.sides], number, host)
            for side in self.order:
                with side.note_faults(step.title):
                    self._count_events(side, step)
        finally:
            for side in self.order:
                if side.client:
                    side.client.kill()
                    side.client = None
        for side in self.order:
            side.move_to(self.cpus.servers, self.cpus.clients)
            side.life.record.trial.seconds_planned += seconds

    def _start_client(self, side: _DuetSide, step: Step, seconds: float) -> None:
        side.intervals = []
        # We end the client: it gets twice the time and a minute, in case the machine is slow.
        side.client = side.life.start_client(step, 2 * seconds + 60, self.cpus.clients)

    def _warm_up(self, step: Step) -> None:
        """Wait until the warm-up's time is over and both clients have reported, so that all their
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
                with side.note_faults(step.title):
                    side.check(step.title)
                    side.note_memory_peak()
                    if elapsed > self.experiment.duet_warmup + _FIRST_REPORT and not side.intervals:
                        raise Fault(
                            "client",
                            f"{step.title}: sysbench has reported nothing in {elapsed:.0f} s",
                        )
            time.sleep(_POLL)

    def _run_slice(self, step: Step, number: int) -> None:
        places = self.pairing.halves(number)
        halves = [self.cpus.halves[half] for half in places]
        began = time.monotonic()
        for i in self._order_of_sides(number):
            self.sides[i].move_to(halves[i], self.cpus.client_halves[places[i]])
            # At the start of the slice, which does not count.
            with self.sides[i].note_faults(step.title):
                self.sides[i].note_memory_peak()
        self._wait_until(step, began + self.slices.discard)
        before, time_before = self._read_counters(step, number), host_sampler.read_cpu_time()
        # On a busy machine the swap and the reading take longer than what is left out; the part
        # that counts is as long as planned.
        counted_from = time.monotonic()
        length = (self.slices.seconds - self.slices.discard) / self.slices.pieces
        for piece in range(self.slices.pieces):
            self._wait_until(step, counted_from + (piece + 1) * length)
            after, time_after = (
                self._read_counters(step, number + piece + 1),
                host_sampler.read_cpu_time(),
            )
            place: dict[str, Any] = {"workload": step.workload, "slice": number, "piece": piece}
            for i, side in enumerate(self.sides):
                a, b = before[i], after[i]
                side.keep_counts(place, a, b)
                shares = host_sampler.compute_shares(
                    time_before, time_after, halves[i], b.clock - a.clock
                )
                side.life.record.rows.append(
                    SliceRow(
                        **place,
                        half=places[i],
                        t=a.clock - side.life.t0,
                        seconds=b.clock - a.clock,
                        queries=b.questions - a.questions - 1,  # without our own
                        events=math.nan,
                        cpu=b.cpu - a.cpu,
                        idle=shares.idle if shares else None,
                        steal=shares.steal if shares else None,
                    )
                )
            before, time_before = after, time_after
            self._show_progress(number)

    def _show_progress(self, number: int) -> None:
        partner = self.sides[1]
        latest = partner.intervals[-1]
        elapsed = number * self.slices.seconds
        rss = partner.life.mark.rss if partner.life.mark else 0
        self.context.observer.tick(Tick(rss, elapsed, latest.tps, milliseconds(latest.latency)))

    def _order_of_sides(self, number: int) -> tuple[int, int]:
        """Return which side is asked first in a slice. They take turns, because dballoc then works
        on the CPU on which the last answer woke it.
        """
        return (0, 1) if (self.pairing.first + number) % 2 == 0 else (1, 0)

    def _read_counters(self, step: Step, number: int) -> dict[int, _ServerCounts]:
        readings = {}
        for i in self._order_of_sides(number):
            with self.sides[i].note_faults(step.title):
                readings[i] = self.sides[i].read_counters()
        return readings

    def _wait_until(self, step: Step, moment: float) -> None:
        while (remaining := moment - time.monotonic()) > 0:
            time.sleep(min(remaining, 4 * _POLL))
            for side in self.order:
                with side.note_faults(step.title):
                    side.check(step.title)

    def _count_events(self, side: _DuetSide, step: Step) -> None:
        """Fill in the transactions of each slice. The server counts statements; the client's
        reports say how many of them make a transaction.
        """
        events = sum(interval.events for interval in side.intervals)
        queries = sum(interval.queries for interval in side.intervals)
        if not events:
            raise Fault("client", f"{step.title}: no transaction finished")
        if not queries:
            raise Fault(
                "client",
                f"{step.title}: sysbench issued no queries, which the duet needs to count; use "
                "--design solo",
            )
        for row in side.life.record.select(SliceRow):
            if row.workload == step.workload:
                row.events = row.queries * events / queries
