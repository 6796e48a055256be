"""One rotation of turns: several servers alive at once, each with its clients. One at a time has
the whole machine; the others and their clients are stopped (SIGSTOP).

A stopped server keeps its locks, its transactions and what it was about to answer, and goes on with
them in its next turn, so a stop is no part of what it did. Nothing of a turn is left out: a
server's turns are one piece of its time, and only at the begin of the first and the end of the last
is a transaction cut. What its clock noticed meanwhile (a page cleaner or a timer that is due) costs
each server the same at the begin of a turn.
"""

import contextlib
import math
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from dballoc.campaign.observer import Tick
from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.host_thp import switch_thp
from dballoc.campaign.trial.loaded_server import (
    LoadedServer,
    ServerFailed,
    cleaning_up,
    warm_up_by_sql,
)
from dballoc.campaign.trial.server_in_trial import ServerLife, TrialContext, keep_host_step
from dballoc.experiment.schedule import Rotation
from dballoc.experiment.trial_steps import Step
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.host.process.handle import Process
from dballoc.instruments.host_sampler import take_host_sample
from dballoc.load.transaction_counter import TransactionCounter
from dballoc.servers.private.data_template import Template
from dballoc.store.results import TrialRecord
from dballoc.store.rows import TurnRow

# Seconds between two looks at what runs, and how long clients may take until one has ended its
# first transaction.
_POLL = 0.05
_FIRST_TRANSACTION = 60.0
# No client ends so many; beyond, something else has written into its counters.
_MOST_TRANSACTIONS = 10**15


@dataclass(frozen=True)
class Rounds:
    """The rounds of each workload: ``number`` in a block, of all servers or ``in_pairs``."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    number: Annotated[int, Field(ge=1, le=10**9)]
    in_pairs: bool


def run_trial(
    context: TrialContext,
    rotation: Rotation,
    rounds: int,
    templates: Mapping[str, Template],
    directory: Path,
) -> list[TrialRecord]:
    """Run one rotation, of so many rounds of each workload, with its raw files in ``directory``;
    returns a record of each member. ``templates``: by variant. Raises Interrupted if the user stops
    dballoc; OSError if that disk is full.
    """
    trial = _RunningRotation(
        context=context,
        rotation=rotation,
        rounds=rounds,
        templates=templates,
        directory=directory,
    )
    with cleaning_up(trial.members):
        return trial.run()


class _TurnTaker(LoadedServer):
    """A server of the rotation with its client. ``is_stopped``: whether both are."""

    def __init__(self, life: ServerLife) -> None:
        super().__init__(life)
        self.counter: TransactionCounter | None = None
        self.client_process: Process | None = None
        self.transactions = 0
        self.is_stopped = False

    @property
    def has_failed(self) -> bool:
        """Whether a fault ended it."""
        return self.life.record.trial.outcome == "fault"

    @contextlib.contextmanager
    def note_faults(self, when: str) -> Iterator[None]:
        """Note a fault in this block as this server's, which runs on to be ended. Raises
        ServerFailed then.
        """
        with super().note_faults(when):
            try:
                yield
            except BaseException:
                self.resume()
                raise

    def start_client(self, step: Step, seconds: float) -> None:
        """Start the client of a step."""
        assert step.threads
        self.counter, self.transactions = TransactionCounter(step.threads), 0
        self.client = self.life.start_client(
            step, seconds, self.life.prepared.client_cpus, counter=self.counter
        )
        try:
            self.client_process = Process.open(self.client.pid)
        except OSError:
            raise Fault("client", f"{step.title}: {self.client.program} ended early") from None

    def end_client(self) -> None:
        """Kill the client, and let the server go on."""
        if self.client:
            self.client.kill()
            self.client = self.client_process = None
        if self.counter:
            self.counter.close()
            self.counter = None
        self.resume()

    def count_ended(self) -> int:
        """Return how many transactions its client has ended since the last call. Raises Fault if
        its counters cannot be right.
        """
        before = self.transactions
        self.transactions = self.counter.read_total() if self.counter else before
        if not before <= self.transactions <= _MOST_TRANSACTIONS:
            raise Fault("client", "its client's counters of transactions are damaged")
        return self.transactions - before

    def stop(self) -> None:
        """Stop the server, then its client."""
        self._send(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self) -> None:
        """Let both go on, if they are stopped."""
        if self.is_stopped:
            self._send(signal.SIGCONT)
            self.is_stopped = False

    def _send(self, number: signal.Signals) -> None:
        # By themselves, not by the guardian: on a busy machine it would answer late.
        self.life.running.process.send(number)
        if self.client_process:
            self.client_process.send(number)


@dataclass(kw_only=True)
class _RunningRotation:
    """All servers of a rotation, and the turns that they take."""

    context: TrialContext
    rotation: Rotation
    rounds: int
    templates: Mapping[str, Template]
    directory: Path

    def __post_init__(self) -> None:
        setting = self.context.setting
        self.experiment = setting.experiment
        assert setting.turns
        names = [name for name, _ in self.rotation.servers]
        self.shared_host = setting.turns.share(self.experiment, names)
        self.members: list[_TurnTaker] = []
        for number, (name, off) in enumerate(
            zip(names, self.shared_host.switched_off, strict=True), 1
        ):
            raw = self.directory / f"{number:02}-{name}"
            OutputDirectory.open(raw).close()
            life = ServerLife(
                self.context,
                name,
                self.templates[name],
                raw,
                cpus=setting.variants[name].server_cpus,
                thp_disable=off,
            )
            self.members.append(_TurnTaker(life))

    def run(self) -> list[TrialRecord]:
        with contextlib.suppress(ServerFailed):
            self._start_servers()
            for member in self._list_running():
                with self._drop_after_fault(member, "warmup_sql"):
                    warm_up_by_sql(self.context, member)
            for number, workload in enumerate(self.experiment.workloads, 1):
                self._run_workload(number, workload)
        for member in self._list_running():
            with self._drop_after_fault(member, "its last sample"):
                member.note_memory_peak()
        for member in self._list_running():
            with self._drop_after_fault(member, "its shutdown"):
                member.life.ask_to_stop()
        for member in self._list_running():
            with self._drop_after_fault(member, "its shutdown"):
                member.life.shut_down()
        return [member.life.finish() for member in self.members]

    def _list_running(self) -> list[_TurnTaker]:
        """Return the members without a fault, in the order in which they start."""
        started = [self.members[index] for index in self.rotation.order_starts()]
        return [member for member in started if not member.has_failed]

    @contextlib.contextmanager
    def _drop_after_fault(self, member: _TurnTaker, when: str) -> Iterator[None]:
        """Go on without a server that has a fault in this block: what the others do in their turns
        does not depend on it.
        """
        with contextlib.suppress(ServerFailed), member.note_faults(when):
            yield
        if member.has_failed:
            member.end_client()

    def _check_comparable(self) -> None:
        """Raise ServerFailed unless the baseline's servers, and another one, are still there."""
        running = self._list_running()
        of_baseline = [m for m, (_, role) in self._pair_roles() if role != "V"]
        if len(running) < 2 or any(member.has_failed for member in of_baseline):
            raise ServerFailed

    def _pair_roles(self) -> Iterator[tuple[_TurnTaker, tuple[str, str]]]:
        return zip(self.members, self.rotation.servers, strict=True)

    # -- before the turns -------------------------------------------------------------------------

    def _start_servers(self) -> None:
        """Start all servers at once. Raises ServerFailed if there is nothing left to compare."""
        host_thp = switch_thp(self.context.custody, self.context.setting, self.shared_host.settings)
        for member in self._list_running():
            member.life.host_thp = host_thp
            with self._drop_after_fault(member, "its start"):
                member.life.start()
        for member in self._list_running():
            with self._drop_after_fault(member, "its start"):
                member.life.wait_until_ready()
        self._check_comparable()

    def _start_clients(self, step: Step, seconds: float) -> None:
        """Start the clients of all servers, each of which stops when its client has ended its first
        transaction: then all its threads are connected.
        """
        for member in self._list_running():
            with self._drop_after_fault(member, step.title):
                member.start_client(step, seconds)
                self._wait_for_transaction(step, member)
                member.stop()

    def _wait_for_transaction(self, step: Step, member: _TurnTaker) -> None:
        began = time.monotonic()
        while not member.count_ended():
            member.check(step.title)
            elapsed = time.monotonic() - began
            if elapsed > _FIRST_TRANSACTION:
                raise Fault("client", f"{step.title}: no transaction has ended in {elapsed:.0f} s")
            time.sleep(_POLL)

    # -- the turns --------------------------------------------------------------------------------

    def _run_workload(self, number: int, workload: str) -> None:
        length = self.experiment.turns.length
        warm_rounds = math.ceil(self.experiment.turns_warmup / length)
        step = Step(
            number=number,
            kind="turns",
            seconds=(warm_rounds + self.rounds) * length * len(self.members),
            workload=workload,
            threads=max(self.experiment.threads),
        )
        self.context.observer.step_started(step)
        began = time.monotonic()
        try:
            # We end the clients: they get twice the time and a minute, in case the machine is slow.
            self._start_clients(step, 2 * step.seconds + 60)
            host = [take_host_sample()]
            for round_number in range(-warm_rounds, self.rounds):
                self._check_comparable()
                for place, index in enumerate(self.rotation.order_round(round_number)):
                    member = self.members[index]
                    if not member.has_failed:
                        with self._drop_after_fault(member, step.title):
                            row = self._take_turn(step, member, round_number, place)
                            self._show(step, member, row, time.monotonic() - began)
            host.append(take_host_sample())
            keep_host_step([member.life for member in self.members], number, host)
        finally:
            for member in self.members:
                member.end_client()
        for member in self.members:
            member.life.record.trial.seconds_planned += step.seconds / len(self.members)

    def _take_turn(self, step: Step, member: _TurnTaker, number: int, place: int) -> TurnRow:
        """Let a server have the machine for a turn; rounds below 0 only warm up. Returns what it
        did. Raises Fault.
        """
        assert step.workload
        began = time.monotonic()
        member.resume()
        member.check(step.title)
        time.sleep(max(0.0, began + self.experiment.turns.length - time.monotonic()))
        member.stop()
        ended = time.monotonic()
        row = TurnRow(
            workload=step.workload,
            round=number,
            place=place,
            t=began - member.life.t0,
            seconds=ended - began,
            transactions=member.count_ended(),
        )
        if number >= 0:
            member.life.record.rows.append(row)
        return row

    def _show(self, step: Step, member: _TurnTaker, row: TurnRow, elapsed: float) -> None:
        rss = member.life.mark.rss if member.life.mark else 0
        self.context.observer.tick(Tick(rss, elapsed, row.transactions / row.seconds))
