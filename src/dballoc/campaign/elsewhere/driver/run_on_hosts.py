"""The driver's side of a campaign on several hosts: its blocks go out, their trials come back into
the one store as they end, and looks are judged here.
"""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, replace
from typing import TypeVar

import dballoc
from dballoc.campaign.elsewhere import place_blocks
from dballoc.campaign.elsewhere.block_messages import (
    BlockFinished,
    BlockRefused,
    Ended,
    FilePiece,
    Message,
    Notice,
    TrialFinished,
    TrialStarted,
    parse_message,
)
from dballoc.campaign.elsewhere.block_request import (
    BlockRequest,
    find_secret,
    select_common_columns,
)
from dballoc.campaign.elsewhere.client.load_messages import (
    ClientReady,
    LoadFinished,
    LoadRequested,
    LoadStopped,
)
from dballoc.campaign.elsewhere.client.pair_hosts import (
    describe_lack,
    describe_pairs,
    make_client_place,
    make_client_request,
)
from dballoc.campaign.elsewhere.driver.block_under_way import BlockUnderWay
from dballoc.campaign.elsewhere.driver.cut_trials import CutTrials
from dballoc.campaign.elsewhere.driver.store_answers import (
    AnswerStore,
    make_begun_trial_row,
    make_placement_row,
)
from dballoc.campaign.elsewhere.executor import Event, Executor, HostLine, HostLost
from dballoc.campaign.elsewhere.fetch_like_driver import list_fetched_files
from dballoc.campaign.elsewhere.message_stream import encode_message
from dballoc.campaign.elsewhere.place_blocks import Host, HostLoad, HostPair
from dballoc.campaign.recorded_facts import make_block_facts
from dballoc.campaign.run_blocks import CampaignKind, CampaignRun, interleave_blocks
from dballoc.campaign.trial.server_in_trial import Interrupted
from dballoc.campaign.ways.servers import estimate_duration, make_blocks
from dballoc.experiment import experiment_file
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.load.workload_files import read_workload_files
from dballoc.store.rows import BlockAheadRow, BlockPlace, BlockRow, HostRow, MeasuredBlock

# Seconds after the driver's last word in which a host ends what runs there, and how long its
# guardian may take for that: then a kernel that was lost is free for others.
LEASE = 30.0
_ENDING = 15.0
# Seconds between two looks at what has come, and at which hosts there are.
_POLL = 1.0
_HOSTS_EVERY = 10.0
# Seconds in which a host must have removed the data of a finished block.
_CLEANING = 600.0
# Seconds for which a host is left alone that has not, or that is in a trouble that may pass:
# another run has its lock or its memory, a download failed.
_REST = 300.0
# A block must have ended after so many times its estimate; its data are extra, in seconds.
_MOST_TIMES, _MAKING_DATA = 10, 6 * 3600.0
# Blocks in succession that a host may lose while it lives itself.
_MOST_FAILURES = 3
# How often one block may be lost: where lost hosts come back by themselves, there is no other end.
MOST_LOSSES = 10
# Seconds without any host after which the driver gives up; what is finished is kept.
_PATIENCE = 120.0


def refuse_unsuitable(experiment: Experiment) -> None:
    """Raise UsageError for an experiment that cannot be run on other hosts."""
    reasons = {
        "own data": experiment.data.own,
        "a recording": experiment.record is not None,
    }
    for words, is_there in reasons.items():
        if is_there:
            raise UsageError(f"--ray: {words} cannot be sent to other hosts; leave it out")
    read_workload_files(experiment)
    if secret := find_secret(experiment):
        raise UsageError(
            f"--ray: {secret} holds a secret, which every node of the cluster could read; leave it "
            "out"
        )


def make_kind(
    executor: Executor, clock: Callable[[], float] = time.monotonic, *, apart: bool = False
) -> CampaignKind:
    """Return the kind of campaign whose blocks an executor runs. ``clock``: that of the hosts;
    ``apart``: the clients of a new campaign are on hosts of their own.
    """
    return CampaignKind(
        name=None,
        estimate=estimate_duration,
        make_facts=lambda setting, planned: replace(
            make_block_facts(setting, planned), clients="apart" if apart else None
        ),
        prepare_blocks=lambda session, results, *rest: make_blocks(session, results, {}, *rest),
        run_blocks=lambda campaign, planned: DriverLoop(campaign, planned, executor, clock).run(),
        runs_here=False,
    )


Block = TypeVar("Block", bound=MeasuredBlock)


def place_in_time(row: Block, now: float) -> Block:
    """Return the row of a block that ends now, by the driver's clock. Which blocks a look judges is
    a matter of their order, and hosts' clocks differ. Pure.
    """
    return replace(row, started=now - max(0.0, row.ended - row.started), ended=now)


class DriverLoop:
    """Gives out blocks and takes answers until all is done. ``clock``: as time.monotonic."""

    def __init__(
        self,
        campaign: CampaignRun,
        planned: dict[str, int],
        executor: Executor,
        clock: Callable[[], float],
    ) -> None:
        self._campaign = campaign
        self._planned = planned
        self._executor = executor
        self._clock = clock
        self._results = campaign.results
        self._apart = campaign.results.facts().clients == "apart"
        self._observer = campaign.observer
        self._order = interleave_blocks(planned)
        self._store = AnswerStore(self._results, campaign.session.directory, campaign.experiment)
        self._cut_trials = CutTrials(
            self._results, self._store, campaign.blocks, self._observer.notice
        )
        self._workload_files = read_workload_files(campaign.experiment)
        self._fetched = list_fetched_files(campaign.setting.variants.values())
        self._load = HostLoad()
        self._running: dict[str, BlockUnderWay] = {}
        self._hosts: list[Host] = []
        self._hosts_read = -_HOSTS_EVERY
        self._host_seen = clock()
        self._has_told = False
        self._failures: Counter[str] = Counter()
        self._losses: Counter[tuple[str, int]] = Counter()
        # Finished blocks that are ahead of the look before them, by design and number.
        self._held: dict[str, dict[int, BlockRow]] = {design: {} for design in planned}
        # Hosts that clean up after a finished block, and until when they may.
        self._cleaning: dict[str, tuple[Host, float]] = {}
        self._looks = {design: list[int]() for design in planned} | {
            design: sorted(procedure.spending)
            for design, procedure in campaign.declare_procedures().items()
        }

    def run(self) -> None:
        """Run all blocks. Raises Interrupted when the user asks; Failure when no host is left."""
        stop = self._campaign.session.stop
        stop.in_trial = True
        self._read_hosts()
        # The budget is time on the clock, in which hosts ran blocks together.
        spans = [
            (row.started, row.ended)
            for design in self._planned
            for row in self._results.blocks(design)
        ]
        spans += [(row.started, row.ended) for row in self._results.list_rows(BlockAheadRow)]
        # Those of blocks that were cut.
        spans += self._results.list_trial_spans()
        self._campaign.began = time.monotonic() - measure_covered_seconds(spans)
        self._read_held_blocks()
        try:
            while True:
                self._give_out_blocks()
                if not self._running and not self._cleaning and self._choose_block() is None:
                    self._cut_trials.settle(self._hosts, is_over=True)
                    self._enter_blocks_of_budget()
                    return
                for event in self._executor.poll(_POLL):
                    self._take(event)
                self._end_late()
                if stop.requested:
                    raise Interrupted
        except (Interrupted, Failure):
            with contextlib.suppress(Failure):
                for block in self._running.values():
                    self._forget_trial(block)
            raise
        finally:
            stop.in_trial = False
            self._executor.close()

    # -- giving out -------------------------------------------------------------------------------

    def _give_out_blocks(self) -> None:
        self._read_hosts()
        while block := self._choose_block():
            now = self._clock()
            busy = {host.kernel for each in self._running.values() for host in each.pair.hosts}
            busy |= {host.kernel for host, _ in self._cleaning.values()}
            pair = place_blocks.choose_hosts(
                self._hosts, busy, self._load, block, now, apart=self._apart
            )
            if pair is None:
                self._check_patience(now)
                return
            if not self._has_budget(*block):
                self._campaign.endings[block[0]] = "budget"
                continue
            self._start(pair, *block)

    def _read_hosts(self) -> None:
        """Ask from time to time which hosts there are; a new one gets blocks too."""
        now = self._clock()
        if now - self._hosts_read < _HOSTS_EVERY:
            return
        self._hosts_read = now
        self._hosts = self._executor.list_hosts()
        for lost in self._cut_trials.settle(self._hosts):
            self._load.lost.setdefault(lost.host, set()).add((lost.design, lost.number))
        self._campaign.hosts_at_once = place_blocks.count_pairs(self._list_usable(), self._apart)
        if self._apart and not self._has_told:
            self._has_told = True
            if sentence := describe_pairs(self._list_usable()):
                self._observer.notice(sentence)

    def _list_usable(self) -> list[Host]:
        return [host for host in self._hosts if host.name not in self._load.refused]

    def _choose_block(self) -> tuple[str, int] | None:
        designs = self._campaign.designs
        complete = self._campaign.history.list_complete_blocks
        finished = {d: complete(d) | self._held[d].keys() for d in designs}
        limits = {d: self._planned[d] for d in designs if self._campaign.is_open(d)}
        running = {(b.key.design, b.key.block) for b in self._running.values()}
        return place_blocks.choose_block(self._order, limits, finished, running)

    def _check_patience(self, now: float) -> None:
        """Raise Failure when nothing runs and no host has been usable for too long."""
        is_possible = place_blocks.choose_hosts(
            self._list_usable(), (), HostLoad(), ("", 0), now, apart=self._apart
        )
        # Ray may be started again on a host that was lost.
        awaited = self._load.lost.keys() - self._load.refused.keys()
        if self._running or self._cleaning or is_possible:
            self._host_seen = now
        elif (self._load.refused and not awaited) or now - self._host_seen > _PATIENCE:
            reasons = [f"{name}: {why}" for name, why in self._load.refused.items()]
            if self._apart and (lack := describe_lack(self._list_usable())):
                reasons.append(lack)
            raise Failure(
                f"no {'pair of hosts' if self._apart else 'host'} is left that can run a block "
                f"({'; '.join(reasons) or 'none answers'}); finished "
                "trials are kept; run the same command to resume"
            )

    def _has_budget(self, design: str, number: int) -> bool:
        seconds = self._campaign.estimate_block_seconds(design)
        return number == 1 or seconds <= self._campaign.find_budget_left()

    def _start(self, pair: HostPair, design: str, number: int) -> None:
        campaign, host = self._campaign, pair.server
        attempt = campaign.history.choose_attempt(design, number, campaign.list_cut(design, number))
        assert attempt is not None
        # An attempt that was lost before its first trial has no trial in the store.
        placed = self._results.list_placed_attempts(design, number)
        attempt = max([attempt, *(number_placed + 1 for number_placed in placed)])
        key = BlockPlace(design=design, block=number, attempt=attempt)
        trials = {t.position: t for t in campaign.blocks[design].list_trials(number, attempt)}
        for each in pair.hosts:
            self._results.add_host(
                HostRow(
                    host=each.name,
                    kernel=each.kernel,
                    environment=json.dumps(asdict(each.environment)),
                )
            )
        self._results.add_placement(make_placement_row(key, pair))
        seconds = _MAKING_DATA + _MOST_TIMES * campaign.estimate_block_seconds(design)
        now = self._clock()
        self._running[host.name] = BlockUnderWay(
            pair=pair, key=key, trials=trials, given_at=now, latest_end=now + seconds
        )
        for each in pair.hosts:
            self._load.blocks[each.name] = self._load.blocks.get(each.name, 0) + 1
        seconds_left = campaign.estimate_seconds_left(self._planned)
        self._observer.block_started(design, number, attempt, self._planned[design], seconds_left)
        request = self._make_request(key, pair)
        if pair.client:
            self._executor.start_client(pair.client, make_client_request(request, pair))
        self._executor.start_block(host, request)

    def _make_request(self, key: BlockPlace, pair: HostPair) -> BlockRequest:
        setting = self._campaign.setting
        return BlockRequest(
            dballoc=dballoc.__version__,
            experiment=experiment_file.format_experiment(setting.experiment),
            design=Design(key.design),
            block=key.block,
            attempt=key.attempt,
            slices=self._campaign.blocks[key.design].slices,
            rounds=self._campaign.blocks[key.design].rounds,
            variants={
                name: select_common_columns(variant.make_row())
                for name, variant in setting.variants.items()
            },
            sysbench=setting.sysbench.version,
            earlier_probes=self._results.probes_of_host(pair.server.name),
            lease=LEASE,
            client=make_client_place(pair),
            workload_files=self._workload_files,
            fetched=self._fetched,
        )

    # -- taking answers ---------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        block = next(
            (b for b in self._running.values() for h in b.pair.hosts if h.name == event.host), None
        )
        if block is None:
            self._take_last_word(event)
            return
        host = next(h for h in block.pair.hosts if h.name == event.host)
        match event:
            case HostLost():
                self._lose(block, host, event.reason, event.is_alive)
            case HostLine():
                try:
                    message = parse_message(event.line)
                    if host is block.pair.client:
                        self._take_from_client(block, host, message)
                    else:
                        self._take_message(block, message)
                except readers.Unfit as error:
                    reason = f"its answer cannot be used: {error}"
                    self._load.refused[host.name] = reason
                    self._lose(block, host, reason, is_alive=True)

    def _take_from_client(self, block: BlockUnderWay, host: Host, message: Message) -> None:
        match message:
            case ClientReady():
                block.loads.become_ready()
                self._executor.hand_line(block.host.name, encode_message(message))
            case LoadFinished():
                block.loads.end(message.number)
                self._executor.hand_line(block.host.name, encode_message(message))
            case BlockRefused():
                self._refuse(block, host, message)
            case Ended():
                self._lose_ended(block, host, message)
            case _:
                raise readers.Unfit("it is a client, and answered as if it ran the block")

    def _take_message(self, block: BlockUnderWay, message: Message) -> None:
        match message:
            case LoadRequested() | LoadStopped():
                if block.pair.client is None:
                    raise readers.Unfit("it asked for a load from another host, and has none")
                if isinstance(message, LoadRequested):
                    block.begin_load(message.number)
                else:
                    block.loads.stop(message.number)
                self._executor.hand_line(block.pair.client.name, encode_message(message))
            case Notice():
                block.count_notice()
                self._observer.notice(f"{block.host.name}: {readers.printable(message.text)}")
            case TrialStarted():
                trial = block.begin_trial(message.position)
                self._results.add(make_begun_trial_row(block, message.position))
                self._observer.trial_started(trial)
            case FilePiece():
                self._store.add_file(block, message)
            case TrialFinished():
                self._finish_trial(block, message)
            case BlockFinished():
                self._finish_block(block, message)
            case BlockRefused():
                self._refuse(block, block.host, message)
            case Ended():
                self._lose_ended(block, block.host, message)
            case ClientReady() | LoadFinished():
                raise readers.Unfit("it answered as if it were a client")

    def _refuse(self, block: BlockUnderWay, host: Host, message: BlockRefused) -> None:
        """Let a host go that cannot run the block. If it gives up a trial that it had begun, blames
        its client host, or is in a trouble that may pass, another try may end otherwise.
        """
        text = readers.printable(message.text)
        if block.pair.client and message.blames_client:
            self._lose(block, block.pair.client, text, is_alive=True)
        elif block.trial_under_way:
            self._lose(block, host, text, is_alive=True)
        elif message.is_passing:
            self._lose(block, host, text, is_alive=True, rest=_REST)
        else:
            self._load.refused[host.name] = text
            self._observer.notice(f"{host.name} runs no more blocks: {text}")
            self._let_go(block)

    def _lose_ended(self, block: BlockUnderWay, host: Host, message: Ended) -> None:
        log = readers.printable(message.log[-500:])
        reason = f"the block's process ended with status {message.status}: {log}"
        self._lose(block, host, reason, is_alive=True)

    def _finish_trial(self, block: BlockUnderWay, message: TrialFinished) -> None:
        trial = block.check_position(message.position)
        self._store.add_trial(block, message)
        self._observer.trial_finished(trial, message.trials)

    def _finish_block(self, block: BlockUnderWay, message: BlockFinished) -> None:
        if block.finished != set(block.trials):
            raise readers.Unfit("it ended a block before all its trials")
        key, campaign = block.key, self._campaign
        measured = place_in_time(message.block, time.time())
        row = BlockRow(**vars(key), **vars(measured))
        is_ahead = key.block > self._find_limit(key.design)
        self._store.add_block(row, is_ahead=is_ahead)
        campaign.block_seconds[key.design].append(time.monotonic() - block.began)
        self._let_clean_up(block)
        for host in block.pair.hosts:
            self._failures[host.name] = 0
        if is_ahead:
            self._hold(row)
        elif not self._count_block(row) and campaign.is_open(key.design):
            self._judge(key.design)
            self._enter_due_blocks(key.design)

    def _count_block(self, row: BlockRow) -> bool:
        """Take a stored block into account; returns whether it is repeated."""
        again = self._campaign.add_to_history(row, self._planned)
        self._observer.block_finished(row.design, row.block, row.disturbed, again)
        return again

    # -- looks ------------------------------------------------------------------------------------

    def _find_limit(self, design: str) -> int:
        """Return the last block that the next look of a design judges."""
        complete = self._campaign.history.list_complete_blocks(design)
        complete_prefix = place_blocks.count_complete_prefix(complete)
        return place_blocks.find_limit(complete_prefix, self._looks[design], self._planned[design])

    def _hold(self, row: BlockRow) -> None:
        """Keep a finished block until the look before it is judged: that its host was quicker than
        others must not decide what that look is of.
        """
        held = self._held[row.design]
        held[row.block] = row
        self._campaign.blocks_ahead[row.design] = len(held)

    def _read_held_blocks(self) -> None:
        """Go on with the blocks that an earlier run held; some may be due: it was killed
        meanwhile.
        """
        for row in self._results.list_rows(BlockAheadRow):
            if 0 < row.block <= self._planned.get(row.design, 0):
                self._hold(row)
        for design in list(self._campaign.designs):
            self._enter_due_blocks(design)

    def _enter_due_blocks(self, design: str) -> None:
        """Let the blocks enter that were held for the next look, which may complete it."""
        while self._campaign.is_open(design):
            limit = self._find_limit(design)
            due = [number for number in self._held[design] if number <= limit]
            if not due:
                return
            self._enter_blocks(design, due)
            self._judge(design)

    def _enter_blocks(self, design: str, numbers: Collection[int]) -> None:
        held, now = self._held[design], time.time()
        rows = [place_in_time(held.pop(number), now) for number in sorted(numbers)]
        self._campaign.blocks_ahead[design] = len(held)
        self._results.enter_held_blocks(rows)
        for row in rows:
            self._count_block(row)

    def _enter_blocks_of_budget(self) -> None:
        """Let enter what is held where the budget ended a design: its last look is of all blocks
        that were begun by then.
        """
        for design in self._campaign.designs:
            if self._campaign.endings.get(design) == "budget":
                self._enter_blocks(design, list(self._held[design]))

    def _judge(self, design: str) -> None:
        """End a design that is decided at the look that its complete blocks have reached."""
        campaign = self._campaign
        number = place_blocks.count_complete_prefix(campaign.history.list_complete_blocks(design))
        attempted = len(campaign.history.list_attempted_blocks(design))
        if attempted == 1:
            number = 1  # whichever block it was: can a duet compare these servers at all?
        if number == attempted and (number == 1 or number in self._looks[design]):
            campaign.end_if_decided(design, number, self._planned[design])
        if not campaign.is_open(design):
            self._end_needless_blocks(design)

    def _end_needless_blocks(self, design: str) -> None:
        """End the blocks under way of a design that a look has ended: they are of no look."""
        needless = [b for b in self._running.values() if b.key.design == design]
        if needless:
            self._observer.notice(
                f"the {design} design is over: {len(needless)} of its blocks, which were under way "
                "for a later look, are ended"
            )
        for block in needless:
            self._store.remove_files(block)
            for host in block.pair.hosts:
                self._leave_alone(host, is_alive=True)
            self._let_go(block)

    def _lose(
        self,
        block: BlockUnderWay,
        host: Host,
        reason: str,
        is_alive: bool,
        rest: float = _ENDING,
    ) -> None:
        """Store the trial under way as lost with one of its hosts; the block is drawn again,
        elsewhere if it can be. ``rest``: seconds for which a host that lives gets no other.
        """
        key, name = block.key, host.name
        trial = self._store.add_lost_trial(block, host, reason)
        self._load.lost.setdefault(name, set()).add((key.design, key.block))
        self._failures[name] += is_alive
        if self._failures[name] >= _MOST_FAILURES:
            self._load.refused[name] = reason
        for each in block.pair.hosts:
            if each is host:
                self._leave_alone(each, is_alive, rest)
            else:
                self._leave_alone(each, is_alive=True)
        during = f" in the trial of {trial.variant}" if trial else ""
        self._observer.notice(
            f"{name} was lost{during}: {reason}; {key.design} block {key.block} is drawn again"
        )
        self._let_go(block)
        lost = (key.design, key.block)
        # A living host on which nothing begins says nothing of the block, and is soon left out.
        self._losses[lost] += bool(trial or block.finished or not is_alive)
        if self._losses[lost] >= MOST_LOSSES:
            raise Failure(
                f"{key.design} block {key.block} was lost {MOST_LOSSES} times, last{during} on "
                f"{name}: {reason}; finished trials are kept; run the same command to resume, or "
                "another experiment without what takes the hosts down"
            )

    def _end_late(self) -> None:
        """Let go of what should have ended long ago: a host may hang and be heard."""
        now = self._clock()
        for block in [b for b in self._running.values() if now > b.latest_end]:
            reason = f"its block had not ended after {(now - block.given_at) / 3600:.1f} hours"
            self._lose(block, block.host, reason, is_alive=True)
        for host in [host for host, until in self._cleaning.values() if now > until]:
            del self._cleaning[host.name]
            # Its guardian goes on beside us.
            self._leave_alone(host, is_alive=True, rest=_REST)
            self._executor.end_block(host.name)
            self._observer.notice(
                f"{host.name} had not cleaned up {_CLEANING / 60:.0f} minutes after its block; it "
                f"gets none for {_REST / 60:.0f} more"
            )

    def _let_clean_up(self, block: BlockUnderWay) -> None:
        """Let a host that has finished a block end by itself: until it has, it holds the machine's
        lock and removes data, beside which nothing is measured.
        """
        del self._running[block.host.name]
        self._cleaning[block.host.name] = block.host, self._clock() + _CLEANING
        if block.pair.client:
            self._executor.end_block(block.pair.client.name)

    def _take_last_word(self, event: Event) -> None:
        """Take an answer of a host that has no block: its process has ended, or says what is of no
        interest any more.
        """
        if event.host not in self._cleaning:
            return
        if isinstance(event, HostLine):
            try:
                has_ended = isinstance(parse_message(event.line), Ended)
            except readers.Unfit:
                has_ended = True
            if not has_ended:
                return
        host, _ = self._cleaning.pop(event.host)
        if isinstance(event, HostLost):
            self._leave_alone(host, event.is_alive)
        self._executor.end_block(host.name)

    def _leave_alone(self, host: Host, is_alive: bool, rest: float = _ENDING) -> None:
        """Give nothing to a lost host's kernel before all has ended there: what is out of reach
        ends by itself. One that does not live is forgotten until it is heard of again. ``rest``:
        seconds that it takes where the host lives.
        """
        free_at = self._clock() + (rest if is_alive else LEASE + _ENDING)
        # Server and client host may share it, and one of them is out of reach.
        self._load.free_at[host.kernel] = max(free_at, self._load.free_at.get(host.kernel, free_at))
        if not is_alive:
            self._hosts = [each for each in self._hosts if each.name != host.name]

    def _forget_trial(self, block: BlockUnderWay) -> None:
        """Forget that a trial of a block was begun, which is given up on purpose."""
        if block.trial_under_way:
            key = block.key
            self._results.forget_begun_trials(key.design, key.block, key.attempt)

    def _let_go(self, block: BlockUnderWay) -> None:
        self._forget_trial(block)
        del self._running[block.host.name]
        for host in block.pair.hosts:
            self._executor.end_block(host.name)


def measure_covered_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return how many seconds are in any of the spans from a moment to another; what several have
    in common counts once.
    """
    covered, latest = 0.0, float("-inf")
    for begin, end in sorted(spans):
        if end > latest:
            covered += end - max(begin, latest)
            latest = end
    return covered
