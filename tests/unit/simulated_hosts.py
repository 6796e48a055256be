"""Hosts that exist in a clock of their own: the real driver over a fake executor. Times are virtual,
losses are drawn, and every trial answers as a real host would, line by line.
"""

import heapq
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import example_results
import measured_campaign

from dballoc.campaign import run_blocks
from dballoc.campaign.elsewhere.block_messages import (
    BlockFinished,
    Ended,
    TrialFinished,
    TrialStarted,
    make_record_rows,
)
from dballoc.campaign.elsewhere.block_request import BlockRequest
from dballoc.campaign.elsewhere.client.load_messages import (
    ClientReady,
    ClientRequest,
    LoadFinished,
    LoadRequested,
)
from dballoc.campaign.elsewhere.driver import run_on_hosts
from dballoc.campaign.elsewhere.executor import Event, HostLine, HostLost
from dballoc.campaign.elsewhere.message_stream import encode_message
from dballoc.campaign.elsewhere.place_blocks import Host
from dballoc.campaign.interim_looks import InterimLooks
from dballoc.campaign.observer import Observer
from dballoc.campaign.run_blocks import CampaignKind, RunEnding
from dballoc.experiment import experiment_file, schedule
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.store.facts import Environment
from dballoc.store.results import TrialRecord

TRIAL_SECONDS = 60.0
# Seconds that nothing takes; the real executor returns after one, and few polls must do here.
LONGEST_POLL = 20.0
ENVIRONMENT = Environment(host="dbhost", cpu="a CPU", cpus=2, memory=2**34)

MakeRecord = Callable[[Experiment, Slot, str], TrialRecord]


def make_example_record(experiment: Experiment, slot: Slot, host: str) -> TrialRecord:
    return example_results.record(experiment, slot)


@dataclass(kw_only=True)
class SimulatedHosts:
    """An executor. ``lose``: whether a host is lost in a trial, by its variant; ``record``: what a
    trial measures; ``kernels``: how many kernels the hosts have, or one each; ``boot``: how often
    the hosts were started;
    ``disturb``: why an attempt at a block was disturbed, by their numbers; ``clients``: those of the names that are for clients;
    ``lose_client``: whether a client host is lost in a trial; ``handed``: lines to hosts;
    ``cleaning``: seconds that a block's process takes to clean up, ``cleaned``: how many have;
    ``slow``: by what a trial takes longer on a host than usual, and ``slow_attempts`` in an attempt
    at a block. ``on_start`` is called after a block was given to a host, ``on_poll`` with what a poll
    brings, and says what it brings instead. ``begun``: the hosts that blocks were given to, and when;
    ``let_go``: when blocks were.
    """

    names: list[str]
    seed: int = 1
    lose: Callable[[random.Random, str], bool] = lambda draw, variant: False
    record: MakeRecord = make_example_record
    kernels: int | None = None
    boot: int = 1
    disturb: Callable[[int, int], str | None] = lambda block, attempt: None
    clients: list[str] = field(default_factory=list)
    lose_client: Callable[[random.Random], bool] = lambda draw: False
    handed: list[tuple[str, bytes]] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    now: float = 0.0
    alive: set[str] = field(default_factory=set)
    started: list[tuple[str, str, int, int]] = field(default_factory=list)
    most_at_once: int = 0
    closed: bool = False
    events: list[tuple[float, int, Event]] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    busy: float = 0.0
    cleaning: float = 1.0
    cleaned: int = 0
    slow: Mapping[str, float] = field(default_factory=dict)
    slow_attempts: Mapping[tuple[int, int], float] = field(default_factory=dict)
    begun: list[tuple[str, float]] = field(default_factory=list)
    let_go: list[float] = field(default_factory=list)
    on_start: Callable[[Host, BlockRequest], None] = lambda host, request: None
    on_poll: Callable[[list[Event]], list[Event]] = lambda events: events

    def __post_init__(self) -> None:
        self.alive = set(self.names)
        self.draw = random.Random(self.seed)
        self.count = 0

    def clock(self) -> float:
        return self.now

    def list_hosts(self) -> list[Host]:
        kernels = self.kernels or len(self.names)
        return [
            Host(
                name=name,
                kernel=f"kernel of {self.names[number % kernels]}, boot {self.boot}",
                environment=replace(ENVIRONMENT, host=name.partition(" (")[0]),
                address=f"10.0.0.{number + 1}",
                roles=frozenset({"client"} if name in self.clients else {"server"}),
            )
            for number, name in enumerate(self.names)
            if name in self.alive
        ]

    def start_client(self, host: Host, request: ClientRequest) -> None:
        assert host.name in self.alive
        assert host.name in self.clients
        assert host.name not in self.running
        self.running.add(host.name)
        assert ClientRequest.parse(request.model_dump_json().encode()) == request
        self._answer(
            self.now, host.name, encode_message(ClientReady(key=host.name, sysbench="1.0"))
        )

    def hand_line(self, host: str, line: bytes) -> None:
        assert host in self.running
        self.handed.append((host, line))

    def start_block(self, host: Host, request: BlockRequest) -> None:
        self.begun.append((host.name, self.now))
        self._begin_block(host, request)
        self.on_start(host, request)

    def _begin_block(self, host: Host, request: BlockRequest) -> None:
        assert host.name in self.alive
        assert host.name not in self.running
        self.running.add(host.name)
        self.most_at_once = max(self.most_at_once, len(self.running - {*self.clients}))
        if request.client:
            self.pairs.append((host.name, request.client.host))
        self.started.append((host.name, request.design, request.block, request.attempt))
        parsed = BlockRequest.parse(request.model_dump_json().encode())
        experiment = experiment_file.build_experiment(
            experiment_file.parse_table(parsed.experiment, "asked"), "asked"
        )
        at = self.now
        slowness = self.slow.get(host.name, 1.0)
        slowness *= self.slow_attempts.get((request.block, request.attempt), 1.0)
        for slot in schedule.order_block(experiment, request.block, request.attempt):
            self._answer(at, host.name, encode_message(TrialStarted(position=slot.position)))
            if self.lose(self.draw, slot.variant):
                lost = HostLost(host=host.name, reason="it is on fire", is_alive=False)
                self._push(at + self.draw.uniform(0, TRIAL_SECONDS), lost)
                return
            if parsed.client:
                if self.lose_client(self.draw):
                    lost = HostLost(host=parsed.client.host, reason="it fell over", is_alive=False)
                    self._push(at + self.draw.uniform(0, TRIAL_SECONDS), lost)
                    return
                self._load(at, host.name, parsed.client.host, slot.position)
            seconds = self.draw.uniform(0.9, 1.1) * TRIAL_SECONDS * slowness
            at += seconds
            self.busy += seconds
            record = self.record(experiment, slot, host.name)
            message = TrialFinished(
                position=slot.position,
                records=[make_record_rows(record)],
                settled_otherwise=record.settled_otherwise,
            )
            self._answer(at, host.name, encode_message(message))
        disturbed = self.disturb(request.block, request.attempt)
        row = vars(example_results.block_row("solo", request.block, disturbed))
        measured = {name: row[name] for name in row if name not in ("design", "block", "attempt")}
        self._answer(at, host.name, encode_message(BlockFinished(row=measured)))
        ended = encode_message(Ended(status=0, log=""))
        self._answer(at + self.cleaning, host.name, ended)

    def _load(self, at: float, server: str, client: str, number: int) -> None:
        """One load of a trial: asked by the server's host, answered by the client's."""
        load = LoadRequested(
            number=number,
            workload="oltp_read_only",
            threads=1,
            seconds=1.0,
            engine="innodb",
            port=3306,
            password="sealed",
        )
        self._answer(at, server, encode_message(load))
        finished = LoadFinished(number=number, status=0, printed="")
        self._answer(at + 0.4 * TRIAL_SECONDS, client, encode_message(finished))

    def answer_instead(self, host: str, messages: Iterable[Any]) -> None:
        """Let a host answer these messages now, and nothing of what it would have."""
        self.events = [event for event in self.events if event[2].host != host]
        for message in messages:
            line = message if isinstance(message, bytes) else encode_message(message)
            self._answer(self.now, host, line)

    def _answer(self, at: float, host: str, line: bytes) -> None:
        self._push(at, HostLine(host=host, line=line))

    def _push(self, at: float, event: Event) -> None:
        self.count += 1
        heapq.heappush(self.events, (at, self.count, event))

    def poll(self, seconds: float) -> list[Event]:
        if not self.events or self.events[0][0] > self.now + LONGEST_POLL:
            self.now += LONGEST_POLL
            return self.on_poll([])
        at, _, event = heapq.heappop(self.events)
        self.now = max(self.now, at)
        if isinstance(event, HostLost):
            self.alive -= set() if event.is_alive else {event.host}
        elif b'"kind":"ended"' in event.line:
            self.cleaned += 1
        return self.on_poll([event])

    def end_block(self, host: str) -> None:
        self.let_go.append(self.now)
        self.running.discard(host)
        self.events = [e for e in self.events if e[2].host != host]
        heapq.heapify(self.events)

    def close(self) -> None:
        self.closed = True


def make_kind(hosts: SimulatedHosts) -> CampaignKind:
    """The kind of campaign that the driver runs, over these hosts and in their clock."""

    return replace(
        run_on_hosts.make_kind(hosts, hosts.clock, apart=bool(hosts.clients)),
        estimate=measured_campaign.estimate,
        make_facts=lambda setting, planned: replace(
            measured_campaign.make_facts(setting, planned),
            clients="apart" if hosts.clients else None,
        ),
    )


def run(
    experiment: Experiment,
    hosts: SimulatedHosts,
    out: Path | None = None,
    observer: Observer | None = None,
) -> tuple[RunEnding, Path]:
    """Run a campaign over simulated hosts; returns how it ended, and its results directory."""
    path = out or Path(tempfile.mkdtemp(prefix="dballoc-simulated-")) / "r"
    ending = run_blocks.run_campaign(
        measured_campaign.make_setting(experiment),
        path,
        observer or Observer(),
        looks=InterimLooks(),
        kind=make_kind(hosts),
    )
    return ending, path


class KilledDriver(BaseException):
    """Stands in for a driver that goes without another word."""


class Notices(Observer):
    """Keeps what the user is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a results directory's store."""
    with closing(sqlite3.connect(path / "results.sqlite")) as db:
        return db.execute(sql).fetchall()


@dataclass
class Drive:
    """Runs solo campaigns over simulated hosts, all into one results directory: the second command
    goes on with the first's. ``notices``: what the last run told the user.
    """

    experiment: Callable[..., Experiment]
    path: Path
    notices: list[str] = field(default_factory=list)

    def __call__(
        self, hosts: SimulatedHosts, blocks: int, *, complete: int | None = None, **changes: Any
    ) -> RunEnding:
        """Run ``blocks`` blocks; then ``complete`` of them, or all, have one finished attempt each,
        whose trials are their schedule's. With ``complete=0`` that is not looked at.
        """
        chosen = self.experiment(design="solo", blocks=blocks, **changes)
        observer = Notices()
        self.notices = observer.texts
        ending, _ = run(chosen, hosts, self.path, observer)
        if complete != 0:
            self.check_blocks(complete or blocks)
        return ending

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of the store."""
        return query(self.path, sql)

    def check_blocks(self, blocks: int) -> None:
        """Check that so many blocks have one finished attempt each, with their schedule's trials."""
        experiment = self.experiment(design="solo")
        finished = self.query("SELECT block, attempt FROM block ORDER BY block")
        assert [block for block, _ in finished] == list(range(1, blocks + 1))
        for block, attempt in finished:
            stored = self.query(
                "SELECT position, variant, role, outcome FROM trial "
                f"WHERE block = {block} AND attempt = {attempt} ORDER BY position",
            )
            planned = schedule.order_block(experiment, block, attempt)
            assert stored == [(s.position, s.variant, s.role, "ok") for s in planned]
