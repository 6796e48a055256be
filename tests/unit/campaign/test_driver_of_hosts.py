"""The driver over simulated hosts: no block is doubled or lost, whatever happens to the hosts."""

import math
import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import count
from typing import Any

import example_results
import pytest
import simulated_hosts
from simulated_hosts import Drive, KilledDriver, SimulatedHosts

from dballoc.campaign.elsewhere.block_messages import (
    MOST_NOTICES,
    BlockFinished,
    Ended,
    FilePiece,
    Notice,
    TrialFinished,
    TrialStarted,
)
from dballoc.campaign.elsewhere.client.load_messages import ClientReady, LoadStopped
from dballoc.campaign.elsewhere.driver import run_on_hosts
from dballoc.campaign.elsewhere.executor import HostLine
from dballoc.campaign.elsewhere.message_stream import encode_message
from dballoc.campaign.run_blocks import CampaignRun
from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.ground.errors import Failure
from dballoc.questions.compare.baseline_comparison import (
    compare_with_baseline,
    declare_procedures,
    select_judged_blocks,
)
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.compare.split_by_host import split_by_host
from dballoc.store.results import TrialRecord
from dballoc.store.rows import MeasuredTrial, StepRow

pytestmark = pytest.mark.long

BLOCK_ROW = {
    name: value
    for name, value in vars(example_results.block_row("solo", 1, "others")).items()
    if name not in ("design", "block", "attempt")
}


def test_blocks_are_spread_over_the_hosts(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b", "c", "d"])
    ending = drive(hosts, blocks=6)
    assert ending.blocks == {"solo": 6}
    placed = Counter(name for name, *_ in hosts.started)
    assert max(placed.values()) - min(placed.values()) <= 1
    assert hosts.most_at_once == 4
    assert hosts.closed
    assert {row[0] for row in drive.query("SELECT host FROM host")} == {"a", "b", "c", "d"}
    assert sorted(drive.query("SELECT host, block, attempt FROM placement")) == sorted(
        (name, block, attempt) for name, _, block, attempt in hosts.started
    )


def test_time_in_which_hosts_ran_together_counts_once(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many hosts there are when a campaign goes on."""
    assert run_on_hosts.measure_covered_seconds([]) == 0
    assert run_on_hosts.measure_covered_seconds([(5, 9), (0, 4), (1, 3), (8, 10)]) == 9
    assert run_on_hosts.measure_covered_seconds([(0, 10), (2, 3), (4, 11)]) == 11
    trials = count()
    # Four trials a block: the only host is lost in the sixth.
    lost = SimulatedHosts(names=["a"], lose=lambda draw, variant: next(trials) >= 20)
    with pytest.raises(Failure, match="no host is left"):
        drive(lost, blocks=6, complete=0)
    with closing(sqlite3.connect(drive.path / "results.sqlite")) as db, db:
        assert [n for (n,) in db.execute("SELECT block FROM block")] == [1, 2, 3, 4, 5]
        db.execute("UPDATE block SET started = 100 + block, ended = 160 + block")
    seen = []
    monkeypatch.setattr(
        run_on_hosts.DriverLoop,
        "_has_budget",
        lambda loop, *_: seen.append(time.monotonic() - loop._campaign.began) or True,
    )
    drive(SimulatedHosts(names=["b"]), blocks=6, complete=0)
    assert 64 <= seen[0] < 120


def list_ahead(drive: Drive) -> list[int]:
    return [b for (b,) in drive.query("SELECT block FROM block_ahead ORDER BY block")]


def test_no_host_waits_for_a_look_that_ends_what_is_beyond_it(drive: Drive) -> None:
    # Blocks 1 and 2 take five times as long.
    hosts = SimulatedHosts(names=[f"h{n:02}" for n in range(20)], slow={"h00": 5.0, "h01": 5.0})
    ending = drive(hosts, blocks=30, complete=10)
    assert [b for _, _, b, _ in hosts.started][:20] == list(range(1, 21))
    assert hosts.most_at_once == 20
    assert {b for _, _, b, _ in hosts.started} == set(range(1, 31))
    # The differences of the example are plain, so the second look decides it, though the blocks of
    # the third were finished before it.
    assert ending.blocks == {"solo": 10}
    assert ending.decided == ("solo",)
    assert list_ahead(drive) == list(range(11, 31))
    assert compare_with_baseline(load_campaign(drive.path)).procedures["solo"].reached == 10
    # The same command again remembers it.
    again = SimulatedHosts(names=["h00", "h01"])
    ending = drive(again, blocks=30, complete=10)
    assert (again.started, ending.why, ending.blocks) == ([], "decided", {"solo": 10})


def test_blocks_that_a_look_makes_needless_are_ended(drive: Drive) -> None:
    hosts = SimulatedHosts(
        names=[f"h{n:02}" for n in range(20)], slow={f"h{n:02}": 5.0 for n in range(10, 20)}
    )

    def start_with_a_file(host: Any, request: Any) -> None:
        begun = encode_message(FilePiece(position=1, name="server.log", data="YQ=="))
        hosts._push(hosts.now + 1, HostLine(host=host.name, line=begun))

    hosts.on_start = start_with_a_file
    drive(hosts, blocks=30, complete=10)
    assert any("the solo design is over" in text for text in drive.notices), drive.notices
    assert hosts.now < 5 * 4 * simulated_hosts.TRIAL_SECONDS
    assert not hosts.running
    assert drive.query("SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]
    # No files are left of trials that have no row.
    stored = {name for (name,) in drive.query("SELECT directory FROM trial")}
    assert {place.name for place in (drive.path / "trials").iterdir()} <= stored


def test_what_a_server_settled_otherwise_comes_to_the_driver(drive: Drive) -> None:
    def settle_otherwise(chosen: Experiment, slot: Slot, host: str) -> TrialRecord:
        record = example_results.record(chosen, slot)
        record.settled_otherwise = {"a_now": "b_now"} if slot.variant == "tuned" else {}
        return record

    hosts = SimulatedHosts(names=["a"], record=settle_otherwise)
    drive(hosts, 1)
    facts = load_campaign(drive.path).facts
    assert facts.settled_otherwise == {"tuned": {"a_now": "b_now"}}


def measure_noise(chosen: Experiment, slot: Slot, host: str) -> TrialRecord:
    """A trial so noisy that no look decides anything; its figures are its place's alone."""
    record = example_results.record(chosen, slot)
    luck = random.Random(f"{slot.block} {slot.variant} {slot.role}").gauss(0, 0.5)
    record.trial.rss_peak = int(2e8 * math.exp(luck))
    for step in record.select(StepRow):
        step.tps = 1000 * math.exp(luck)
    return record


@pytest.mark.parametrize("losses", [0.0, 0.05])
def test_each_look_judges_the_blocks_up_to_its_number_whichever_were_first(
    drive: Drive, losses: float
) -> None:
    hosts = SimulatedHosts(
        names=[f"h{n:02}" for n in range(60)],
        record=measure_noise,
        slow={f"h{n:02}": 1.0 + n % 7 for n in range(60)},
        lose=lambda own, variant: own.random() < losses,
    )
    numbers = [0]
    judged: dict[int | None, set[frozenset[int]]] = {}

    def poll_and_look(events: list[Any]) -> list[Any]:
        number = drive.query("SELECT count(*) FROM block")[0][0]
        if number != numbers[-1]:
            numbers.append(number)
            campaign = load_campaign(drive.path)
            procedures = declare_procedures(campaign)
            of_look = select_judged_blocks(campaign, procedures).trial["block"]
            judged.setdefault(procedures["solo"].reached, set()).add(frozenset(of_look))
        return events

    hosts.on_poll = poll_and_look
    drive(hosts, blocks=30)
    assert list_ahead(drive) == []
    del judged[None]
    assert set(judged) <= {6, 10, 20, 30}
    assert 30 in judged
    # A block that is lost late may let several looks fall together.
    assert len(judged) > 1 or losses
    for look, sets in judged.items():
        assert sets == {frozenset(range(1, int(look or 0) + 1))}


def test_what_is_ahead_of_a_look_outlives_the_driver(drive: Drive) -> None:
    names = [f"h{n:02}" for n in range(12)]
    hosts = SimulatedHosts(names=names, record=measure_noise, slow={"h00": 9.0})
    ahead, stored = list(range(7, 13)), "SELECT count(*) FROM block"

    def poll_until_killed(events: list[Any]) -> list[Any]:
        if drive.query(stored) == [(5,)] and list_ahead(drive) == ahead:
            raise KilledDriver
        return events

    hosts.on_poll = poll_until_killed
    with pytest.raises(KilledDriver):
        drive(hosts, blocks=12)
    assert drive.query("SELECT block FROM block") == [(n,) for n in range(2, 7)]
    again = SimulatedHosts(names=names, record=measure_noise)
    drive(again, blocks=12)
    assert [(block, attempt) for _, _, block, attempt in again.started] == [(1, 1)]
    assert list_ahead(drive) == []


def test_blocks_that_are_ahead_when_the_budget_ends_are_judged_with_the_rest(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = SimulatedHosts(
        names=[f"h{n:02}" for n in range(15)], record=measure_noise, slow={"h00": 9.0}
    )
    monkeypatch.setattr(
        run_on_hosts.DriverLoop, "_has_budget", lambda loop, design, number: number <= 18
    )
    ending = drive(hosts, blocks=30, complete=18)
    assert ending.why == "budget"
    assert list_ahead(drive) == []
    assert compare_with_baseline(load_campaign(drive.path)).procedures["solo"].reached == 18


def test_a_lost_host_leaves_a_fault_and_its_block_is_drawn_again_elsewhere(drive: Drive) -> None:
    losses = iter([True])
    hosts = SimulatedHosts(
        names=["a", "b"],
        lose=lambda draw, variant: variant == "tuned" and next(losses, False),
    )
    drive(hosts, blocks=4)
    lost = drive.query(
        "SELECT block, attempt, variant, fault, fault_text FROM trial WHERE outcome = 'fault'",
    )
    assert [(r[2], r[3]) for r in lost] == [("tuned", "host lost")]
    block, attempt = lost[0][:2]
    on = {(b, a): name for name, _, b, a in hosts.started}
    assert on[block, attempt] != on[block, attempt + 1]
    assert f"host {on[block, attempt]} was lost: it is on fire" in lost[0][4]
    assert any("was lost in the trial of tuned" in text for text in drive.notices)


def test_a_wrong_clock_of_a_host_changes_no_order_of_blocks(drive: Drive) -> None:
    """The blocks of a look are those that were completed first."""
    hosts = SimulatedHosts(names=["a", "b"])
    finished: list[str] = []

    def poll_with_wrong_clocks(events: list[Any]) -> list[Any]:
        for number, event in enumerate(events):
            if isinstance(event, HostLine) and b'"kind":"block"' in event.line:
                ended = 1e9 if event.host == "a" else 2e9 - len(finished)
                row = BLOCK_ROW | {"started": ended - 60, "ended": ended}
                events[number] = replace(event, line=encode_message(BlockFinished(row=row)))
                finished.append(event.host)
        return events

    hosts.on_poll = poll_with_wrong_clocks
    before = time.time()
    drive(hosts, blocks=4, complete=0)
    assert {*finished} == {"a", "b"}
    stored = drive.query(
        "SELECT host, started, ended FROM block JOIN placement USING (design, block, attempt) "
        "ORDER BY ended",
    )
    assert [host for host, _, _ in stored] == finished
    for _, started, ended in stored:
        assert before <= ended <= time.time()
        assert ended - started == pytest.approx(60)


def test_hosts_with_and_without_losses_give_the_verdicts_of_one(drive: Drive) -> None:
    """A trial's figures are those of its block and variant here, whoever runs it."""

    def measure(chosen: Experiment, slot: Slot, host: str) -> TrialRecord:
        record = example_results.record(chosen, slot)
        luck = random.Random(f"{slot.block} {slot.variant} {slot.role}").gauss(0, 0.05)
        peak = int(example_results.SIZES[slot.variant] * math.exp(luck))
        record.trial.rss_peak = peak
        for step in record.select(StepRow):
            step.tps = 1000 * math.exp(luck)
        return record

    def judge(name: str, hosts: SimulatedHosts) -> list[Any]:
        campaign = replace(drive, path=drive.path / name)
        campaign(hosts, 10, complete=0)
        return [
            (row.variant, row.metric, row.verdict, row.ratio)
            for row in compare_with_baseline(load_campaign(campaign.path)).family
        ]

    one = SimulatedHosts(names=["a"], record=measure)
    three = SimulatedHosts(names=["a", "b", "c"], record=measure)
    losing = SimulatedHosts(
        names=[f"h{n}" for n in range(20)],
        record=measure,
        lose=lambda own, variant: own.random() < 0.1,
    )
    verdicts = judge("one", one)
    assert len({verdict for _, _, verdict, _ in verdicts}) > 1
    assert judge("three", three) == judge("losing", losing) == verdicts
    assert {name for name, *_ in three.started} == {"a", "b", "c"}
    assert len(losing.alive) < 20


@pytest.mark.parametrize("seed", range(4))
def test_many_losses_double_and_lose_nothing(drive: Drive, seed: int) -> None:
    hosts = SimulatedHosts(
        names=[f"h{n}" for n in range(40)],
        seed=seed,
        lose=lambda own, variant: own.random() < (0.3 if variant == "tuned" else 0.05),
    )
    ending = drive(hosts, blocks=10, complete=0)
    drive.check_blocks(ending.blocks["solo"])
    lost = drive.query("SELECT count(*) FROM trial WHERE fault = 'host lost'")[0][0]
    assert lost == len(hosts.names) - len(hosts.alive)


def test_the_same_command_resumes_after_the_driver_was_lost(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"])
    polls = iter(range(12))

    def poll_until_killed(events: list[Any]) -> list[Any]:
        if next(polls, None) is None:
            raise KilledDriver
        return events

    hosts.on_poll = poll_until_killed
    with pytest.raises(KilledDriver):
        drive(hosts, blocks=5)
    before = drive.query("SELECT count(*) FROM trial")[0][0]
    assert before > 0
    drive(SimulatedHosts(names=["a", "b"]), blocks=5)


BEGUN = TrialStarted(position=1)
PIECES = [
    FilePiece(position=1, name=name, data="YQ==") for name in ("server.log", "server.log/more")
]


def finish_trial(*steps: StepRow, **columns: Any) -> TrialFinished:
    rows = {"trial": [vars(MeasuredTrial(started=1.0)) | columns], "step": [*map(vars, steps)]}
    return TrialFinished(position=1, records=[rows])


def make_step(**columns: Any) -> StepRow:
    return StepRow(step=1, t=0.0, seconds=1.0, **columns)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([b'{"kind": "trial", "position": 1}\n'], "not a message"),
        ([TrialStarted(position=99)], "began a trial 99"),
        ([finish_trial()], "not under way"),
        ([BlockFinished(row=BLOCK_ROW)], "before all its trials"),
        ([BEGUN, finish_trial(outcome="splendid")], "outcome: 'splendid' is not valid"),
        ([BEGUN, finish_trial(proof="{")], "proof: not JSON"),
        ([BEGUN, finish_trial(make_step(kind="idle", workload="x"))], "does not have"),
        ([BEGUN, finish_trial(make_step(kind="level", threads=99))], "a level that"),
        ([BEGUN, *PIECES], "a file and a directory of one name"),
        # Each would begin the bound of a trial's bytes anew.
        ([BEGUN, PIECES[0], BEGUN], "began a trial while another was under way"),
        ([BEGUN, TrialStarted(position=2)], "began a trial while another was under way"),
        ([Notice(text="buy now")] * (MOST_NOTICES + 1), "more notices than"),
        ([BlockFinished(row=BLOCK_ROW | {"probe_before": -1.0})], "probe_before"),
        ([BlockFinished(row=BLOCK_ROW | {"probe_after": 1e12})], "probe_after"),
    ],
)
def test_a_host_that_answers_nonsense_runs_nothing_more(
    drive: Drive, messages: list[Any], reason: str
) -> None:
    hosts = SimulatedHosts(names=["a", "b"])

    def start_or_lie(host: Any, request: Any) -> None:
        if host.name == "a":
            hosts.answer_instead("a", messages)

    hosts.on_start = start_or_lie
    drive(hosts, blocks=2)
    assert [name for name, *_ in hosts.started].count("a") == 1
    assert any("answer cannot be used" in t and reason in t for t in drive.notices), drive.notices


def test_a_host_whose_blocks_always_end_early_runs_nothing_more(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"])

    def start_or_crash(host: Any, request: Any) -> None:
        if host.name == "a":
            hosts.answer_instead("a", [Ended(status=-9, log="Killed")])

    hosts.on_start = start_or_crash
    drive(hosts, blocks=6)
    assert [name for name, *_ in hosts.started].count("a") == 3


@pytest.mark.parametrize("hosts_at_once", [2, 10])
def test_a_disturbed_block_is_repeated_whole_and_only_so_often(
    drive: Drive, hosts_at_once: int
) -> None:
    names = [f"h{n}" for n in range(hosts_at_once)]
    hosts = SimulatedHosts(
        names=names, record=measure_noise, disturb=lambda block, attempt: "others"
    )
    drive(hosts, blocks=10, noise={"repeats": 2}, complete=0)
    attempts = drive.query("SELECT block, attempt FROM block")
    assert len(attempts) == 12
    assert {block for block, _ in attempts} == set(range(1, 11))


@pytest.mark.parametrize("losses", [0.0, 0.05])
def test_a_look_waits_for_the_repeats_of_its_blocks_and_is_judged_once(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, losses: float
) -> None:
    """Block 2 has the last repeat but one; while that of block 3 goes on, no other may make block 3
    complete.
    """
    judge, judged = CampaignRun.end_if_decided, []

    def end_if_decided(run: CampaignRun, design: str, number: int, planned: int) -> None:
        attempts = f"SELECT block, max(attempt) FROM block WHERE block <= {number} GROUP BY block"
        judged.append((number, drive.query(attempts)))
        judge(run, design, number, planned)

    monkeypatch.setattr(CampaignRun, "end_if_decided", end_if_decided)
    hosts = SimulatedHosts(
        names=[f"h{n}" for n in range(7)],
        record=measure_noise,
        disturb=lambda block, attempt: "others" if block in (2, 3) else None,
        slow_attempts={(2, 0): 1.2, (3, 1): 3.0, (2, 1): 3.0},
        lose=lambda own, variant: own.random() < losses,
    )
    drive(hosts, blocks=10, noise={"repeats": 1}, complete=0)
    attempts = dict(drive.query("SELECT block, max(attempt) FROM block GROUP BY block"))
    numbers = [number for number, _ in judged if number > 1]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 10
    for number, seen in judged:
        if number > 1:
            assert dict(seen) == {n: attempts[n] for n in range(1, number + 1)}
    rows = drive.query("SELECT count(*) FROM block")
    assert rows == [(11,)]


def test_a_client_apart_gets_what_the_block_asks_and_answers_it(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b", "x", "y"], clients=["x", "y"])
    drive(hosts, blocks=4)
    assert hosts.most_at_once == 2
    assert {server for server, _ in hosts.pairs} == {"a", "b"}
    assert {client for _, client in hosts.pairs} == {"x", "y"}
    of_client = Counter(name for name, line in hosts.handed if b'"kind":"load"' in line)
    of_server = Counter(name for name, line in hosts.handed if b'"load finished"' in line)
    trials = len(schedule.order_block(drive.experiment(design="solo"), 1)) * 4
    assert sum(of_client.values()) == sum(of_server.values()) == trials
    assert set(of_client) == {"x", "y"}
    ready = [name for name, line in hosts.handed if b'"client ready"' in line]
    assert sorted(ready) == sorted(server for server, _ in hosts.pairs)
    assert not hosts.running
    assert drive.query("SELECT value FROM campaign WHERE key = 'clients'") == [("apart",)]
    assert set(drive.query("SELECT host, client FROM placement")) == set(hosts.pairs)
    assert [name for (name,) in drive.query("SELECT host FROM host")] == ["a", "b", "x", "y"]
    assert len(split_by_host(load_campaign(drive.path))) == 2


def test_a_lost_client_host_ends_its_block_which_is_drawn_again(drive: Drive) -> None:
    losses = iter([False, True])
    hosts = SimulatedHosts(
        names=["a", "x", "y"], clients=["x", "y"], lose_client=lambda draw: next(losses, False)
    )
    drive(hosts, blocks=3)
    lost = drive.query("SELECT fault, fault_text FROM trial WHERE outcome = 'fault'")
    assert lost == [("host lost", "its client host x was lost: it fell over")]
    assert hosts.alive == {"a", "y"}
    # The server's host, which lives, is not thought less of, but its block had another client.
    assert [client for _, client in hosts.pairs] == ["x", "y", "y", "y"]


def test_without_a_client_host_a_campaign_with_clients_apart_does_not_go_on(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b", "x"], clients=["x"], lose_client=lambda draw: True)
    with pytest.raises(Failure, match="no pair of hosts is left"):
        drive(hosts, blocks=3)
    # Nor when it is resumed on hosts that would do for clients beside their servers.
    rest = SimulatedHosts(names=["a", "b"])
    with pytest.raises(Failure, match="no pair of hosts is left"):
        drive(rest, blocks=3)


@pytest.mark.parametrize(
    ("host", "message", "reason"),
    [
        ("x", TrialStarted(position=1), "answered as if it ran the block"),
        ("a", ClientReady(key="k", sysbench="1.0"), "answered as if it were a client"),
        ("x", BlockFinished(row=BLOCK_ROW), "answered as if it ran the block"),
    ],
)
def test_a_host_that_answers_for_the_other_runs_nothing_more(
    drive: Drive, host: str, message: Any, reason: str
) -> None:
    hosts = SimulatedHosts(names=["a", "b", "x", "y"], clients=["x", "y"])
    lies = iter([HostLine(host=host, line=encode_message(message))])

    def start_and_lie(server: Any, request: Any) -> None:
        if host in (server.name, request.client.host) and (lie := next(lies, None)):
            hosts._push(hosts.now, lie)

    hosts.on_start = start_and_lie
    drive(hosts, blocks=2)
    assert any(reason in text and host in text for text in drive.notices), drive.notices


def test_a_load_that_no_client_host_is_for_is_refused(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a"])

    def start_and_ask(server: Any, request: Any) -> None:
        hosts._push(hosts.now, HostLine(host="a", line=encode_message(LoadStopped(number=1))))

    hosts.on_start = start_and_ask
    with pytest.raises(Failure, match="asked for a load from another host"):
        drive(hosts, blocks=1)
