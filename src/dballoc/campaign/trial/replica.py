"""The replica that a trial measures: how much it has applied, how far it is behind its primary, and
why it stopped.
"""

import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dballoc.campaign.trial.fault import Fault
from dballoc.campaign.trial.primary import Primary
from dballoc.campaign.trial.server_in_trial import ServerLife
from dballoc.experiment.trial_steps import KEEPS_UP
from dballoc.load.client_output import IntervalReport, Total
from dballoc.servers.private import replication
from dballoc.store.rows import ReplicaRow

# Seconds between two looks at a replica that catches up, and how long it may take to connect.
_POLL = 0.05
_CONNECT = 30.0


@dataclass(frozen=True)
class ReplicationProgress:
    """At the moment ``clock`` (CLOCK_MONOTONIC): the transactions that the primary had committed,
    and those of them that the replica had applied. They are asked one after the other, the
    replica first, so that it is never ahead.
    """

    clock: float
    committed: int
    applied: int

    @property
    def behind(self) -> int:
        """Transactions that wait to be applied."""
        return max(0, self.committed - self.applied)


@dataclass
class ReplicaStep:
    """What a replica did in one step of load. ``caught_up``: the last reading, after the wait."""

    readings: list[ReplicationProgress] = field(default_factory=list)
    intervals: list[IntervalReport] = field(default_factory=list)
    loaded: ReplicationProgress | None = None
    caught_up: ReplicationProgress | None = None

    def add(self, reading: ReplicationProgress, report: IntervalReport) -> IntervalReport:
        """Add a reading that was taken after a client's report; returns the report with what was
        applied since the last reading in place of what clients did.
        """
        before = self.readings[-1]
        self.readings.append(reading)
        applied = replace(
            report,
            clock=reading.clock,
            seconds=reading.clock - before.clock,
            events=reading.applied - before.applied,
            queries=reading.applied - before.applied,
            latency=None,
        )
        self.intervals.append(applied)
        return applied


def compute_lag(readings: list[ReplicationProgress], now: ReplicationProgress) -> float:
    """Return how many seconds ago the primary had committed as much as the replica has applied by
    ``now``: 0 if nothing waits. ``readings`` are earlier ones, in their order; between two of them
    the primary's count is taken to rise evenly.
    """
    if now.behind == 0:
        return 0.0
    series = [*readings, now]
    right = bisect_right([r.committed for r in series], now.applied)
    if right == 0:
        return now.clock - series[0].clock
    a, b = series[right - 1], series[right]
    share = (now.applied - a.committed) / (b.committed - a.committed)
    return now.clock - (a.clock + share * (b.clock - a.clock))


def make_total(progress: ReplicaStep, of_client: Total) -> Total:
    """Return the totals of a step: what the replica applied from the load's begin to its end. It
    has no statements to count, so a transaction counts as one.
    """
    first, last = progress.readings[0], progress.loaded
    assert last
    return Total(
        clock=last.clock,
        seconds=last.clock - (of_client.clock - of_client.seconds),
        events=last.applied - first.applied,
        queries=last.applied - first.applied,
        latency_min=None,
        latency_avg=None,
        latency_max=None,
        errors=of_client.errors,
        reconnects=of_client.reconnects,
    )


def make_replica_row(step: int, progress: ReplicaStep, of_client: Total) -> ReplicaRow:
    """Return the row of table ``replica``."""
    first, loaded, last = progress.readings[0], progress.loaded, progress.caught_up
    assert loaded and last
    begin = of_client.clock - of_client.seconds
    return ReplicaRow(
        step=step,
        primary_tps=(loaded.committed - first.committed) / (loaded.clock - begin),
        behind=loaded.behind,
        lag=compute_lag(progress.readings, loaded),
        waited=last.clock - loaded.clock,
        left_behind=last.behind,
    )


def describe_lag(row: ReplicaRow) -> str | None:
    """Return the sentence on a replica that does not keep up, from its row; None if it keeps up."""
    if row.lag <= KEEPS_UP:
        return None
    waiting = row.left_behind
    after = (
        f"{waiting:,} of them still wait {row.waited:.0f} s later"
        if waiting
        else f"applied {row.waited:.1f} s later"
    )
    return (
        f"the replica does not keep up: {row.behind:,} transactions, {row.lag:.1f} s, behind "
        f"at the end; {after}"
    )


class ReplicaServer:
    """A variant's server that replicates from ``primary``."""

    def __init__(self, life: ServerLife, primary: Primary, patience: float) -> None:
        """``patience``: the seconds that a step waits at most for what its load left."""
        self._life = life
        self._primary = primary
        self._patience = patience

    def connect(self) -> None:
        """Begin to replicate. Raises Fault if the server does not."""
        build, admin = self._primary.build, self._life.running.admin
        with self._life.ask("its start", "to replicate"):
            replication.follow_primary(build, admin, self._primary.account)
        deadline = time.monotonic() + _CONNECT
        while not self._read_state("its start").connected:
            if time.monotonic() > deadline:
                raise Fault("replication", "the replica does not connect to its primary")
            self._life.running.child.wait(_POLL)

    def read_progress(self, when: str) -> ReplicationProgress:
        """Ask both servers how far they are. Raises Fault if the replica does not answer; Failure
        if the primary does not.
        """
        admin = self._life.running.admin
        with self._life.ask(when, "its GTIDs"):
            applied = replication.count_applied(self._primary.build, admin)
        return ReplicationProgress(time.monotonic(), self._primary.count_committed(when), applied)

    def check(self, when: str) -> None:
        """Raises Fault if replication has stopped; Failure if the primary has."""
        self._primary.check_alive(when)
        if not self._read_state(when).applying:
            raise Fault("replication", f"{when}: the replica stopped applying without a message")

    def finish_load(self, progress: ReplicaStep, when: str, sample: Callable[[], object]) -> None:
        """Note how far the replica is at the load's end, then wait until it has applied all, or for
        as long as the experiment says; ``sample`` is called once a second meanwhile.
        """
        now = progress.loaded = self.read_progress(when)
        sampled = now.clock
        while now.behind and now.clock - progress.loaded.clock < self._patience:
            self._life.check_alive(when)
            self.check(when)
            self._life.running.child.wait(_POLL)
            now = self.read_progress(when)
            if now.clock - sampled >= 1.0:
                sample()
                sampled = now.clock
        progress.caught_up = now

    def _read_state(self, when: str) -> replication.ReplicaState:
        with self._life.ask(when, "the replica's state"):
            state = replication.read_state(self._primary.build, self._life.running.admin)
        if state.error:
            # If the primary is gone, the replica has no fault.
            self._primary.check_alive(when, 2.0)
            raise Fault("replication", f"{when}: replication stopped: {state.error}")
        return state
