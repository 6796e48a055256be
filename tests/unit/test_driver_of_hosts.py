"""The driver over simulated hosts: no block is doubled or lost, whatever happens to the hosts."""

import json
import math
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import example_results
import pytest
import simulated_hosts
from simulated_hosts import SimulatedHosts

from dballoc.analysis.campaign_tables import load_campaign
from dballoc.analysis.hosts.split_by_host import split_by_host
from dballoc.analysis.tables.baseline_comparison import (
    compare_with_baseline,
    declare_procedures,
    select_judged_blocks,
)
from dballoc.campaign.observer import Observer
from dballoc.campaign.run_blocks import CampaignRun
from dballoc.errors import Failure
from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.experiment.schedule import Slot
from dballoc.hosts.block_messages import (
    BlockFinished,
    Ended,
    FilePiece,
    TrialFinished,
    TrialStarted,
)
from dballoc.hosts.client.load_messages import ClientReady, LoadStopped
from dballoc.hosts.driver import run_on_hosts
from dballoc.hosts.executor import HostLine
from dballoc.hosts.message_stream import encode_message
from dballoc.store.results import SETTLED_OTHERWISE, TrialRecord
from dballoc.store.rows import MeasuredTrial, StepRow

MakeExperiment = Callable[..., Experiment]

BLOCK_ROW = {
    name: value
    for name, value in vars(example_results.block_row("solo", 1, "others")).items()
    if name not in ("design", "block", "attempt")
}


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(path / "results.sqlite")
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


class Notices(Observer):
    """Keeps what the user is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


def check_complete(path: Path, experiment: Experiment, blocks: int) -> None:
    """Every planned block has one finished attempt, whose trials are its schedule's, on one host."""
    finished = query(path, "SELECT block, attempt FROM block ORDER BY block")
    assert [block for block, _ in finished] == list(range(1, blocks + 1))
    for block, attempt in finished:
        stored = query(
            path,
            "SELECT position, variant, role, outcome FROM trial "
            f"WHERE block = {block} AND attempt = {attempt} ORDER BY position",
        )
        planned = schedule.order_block(experiment, block, attempt)
        assert stored == [(s.position, s.variant, s.role, "ok") for s in planned]


def test_blocks_are_spread_over_the_hosts(experiment: MakeExperiment, tmp_path: Path) -> None:
    chosen = experiment(design="solo", blocks=6)
    hosts = SimulatedHosts(names=["a", "b", "c", "d"])
    ending, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    assert ending.blocks == {"solo": 6}
    check_complete(path, chosen, 6)
    placed = Counter(name for name, *_ in hosts.started)
    assert max(placed.values()) - min(placed.values()) <= 1
    assert hosts.most_at_once == 4
    assert hosts.closed
    assert {row[0] for row in query(path, "SELECT host FROM host")} == {"a", "b", "c", "d"}
    assert sorted(query(path, "SELECT host, block, attempt FROM placement")) == sorted(
        (name, block, attempt) for name, _, block, attempt in hosts.started
    )


def test_time_in_which_hosts_ran_together_counts_once(
    experiment: MakeExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many hosts there are when a campaign goes on."""
    assert run_on_hosts.measure_covered_seconds([]) == 0
    assert run_on_hosts.measure_covered_seconds([(5, 9), (0, 4), (1, 3), (8, 10)]) == 9
    assert run_on_hosts.measure_covered_seconds([(0, 10), (2, 3), (4, 11)]) == 11
    chosen = experiment(design="solo", blocks=6)
    trials = count()
    # Four trials a block: the only host is lost in the sixth.
    lost = SimulatedHosts(names=["a"], lose=lambda draw, variant: next(trials) >= 20)
    with pytest.raises(Failure, match="no host is left"):
        simulated_hosts.run(chosen, lost, tmp_path / "r")
    with closing(sqlite3.connect(tmp_path / "r" / "results.sqlite")) as db, db:
        assert [n for (n,) in db.execute("SELECT block FROM block")] == [1, 2, 3, 4, 5]
        db.execute("UPDATE block SET started = 100 + block, ended = 160 + block")
    seen = []
    monkeypatch.setattr(
        run_on_hosts.DriverLoop,
        "_has_budget",
        lambda loop, *_: seen.append(time.monotonic() - loop._campaign.began) or True,
    )
    simulated_hosts.run(chosen, SimulatedHosts(names=["b"]), tmp_path / "r")
    assert 64 <= seen[0] < 120


def list_ahead(path: Path) -> list[int]:
    return [b for (b,) in query(path, "SELECT block FROM block_ahead ORDER BY block")]


def test_no_host_waits_for_a_look_that_ends_what_is_beyond_it(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=30)
    # Blocks 1 and 2 take five times as long.
    hosts = SimulatedHosts(names=[f"h{n:02}" for n in range(20)], slow={"h00": 5.0, "h01": 5.0})
    notices = Notices()
    ending, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    assert [b for _, _, b, _ in hosts.started][:20] == list(range(1, 21))
    assert hosts.most_at_once == 20
    assert {b for _, _, b, _ in hosts.started} == set(range(1, 31))
    # The differences of the example are plain, so the second look decides it, though the blocks of
    # the third were finished before it.
    assert ending.blocks == {"solo": 10}
    assert ending.decided == ("solo",)
    check_complete(path, chosen, 10)
    assert list_ahead(path) == list(range(11, 31))
    assert compare_with_baseline(load_campaign(path)).procedures["solo"].reached == 10
    # The same command again remembers it.
    again = SimulatedHosts(names=["h00", "h01"])
    ending, _ = simulated_hosts.run(chosen, again, tmp_path / "r")
    assert (again.started, ending.why, ending.blocks) == ([], "decided", {"solo": 10})


def test_blocks_that_a_look_makes_needless_are_ended(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=30)
    hosts = SimulatedHosts(
        names=[f"h{n:02}" for n in range(20)], slow={f"h{n:02}": 5.0 for n in range(10, 20)}
    )
    start = hosts.start_block

    def start_with_a_file(host: Any, request: Any) -> None:
        start(host, request)
        begun = encode_message(FilePiece(position=1, name="server.log", data="YQ=="))
        hosts._push(hosts.now + 1, HostLine(host=host.name, line=begun))

    hosts.start_block = start_with_a_file  # type: ignore[method-assign]
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 10)
    assert any("the solo design is over" in text for text in notices.texts), notices.texts
    assert hosts.now < 5 * 4 * simulated_hosts.TRIAL_SECONDS
    assert not hosts.running
    assert query(path, "SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]
    # No files are left of trials that have no row.
    stored = {name for (name,) in query(path, "SELECT directory FROM trial")}
    assert {place.name for place in (path / "trials").iterdir()} <= stored


def test_what_a_server_settled_otherwise_comes_to_the_driver(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    def settle_otherwise(chosen: Experiment, slot: Slot, host: str) -> TrialRecord:
        record = example_results.record(chosen, slot)
        record.settled_otherwise = {"a_now": "b_now"} if slot.variant == "tuned" else {}
        return record

    hosts = SimulatedHosts(names=["a"], record=settle_otherwise)
    _, path = simulated_hosts.run(experiment(design="solo", blocks=1), hosts, tmp_path / "r")
    facts = load_campaign(path).facts
    assert json.loads(facts[SETTLED_OTHERWISE]) == {"tuned": {"a_now": "b_now"}}


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
    experiment: MakeExperiment, tmp_path: Path, losses: float
) -> None:
    chosen = experiment(design="solo", blocks=30)
    hosts = SimulatedHosts(
        names=[f"h{n:02}" for n in range(60)],
        record=measure_noise,
        slow={f"h{n:02}": 1.0 + n % 7 for n in range(60)},
        lose=lambda own, variant: own.random() < losses,
    )
    poll, numbers = hosts.poll, [0]
    judged: dict[int | None, set[frozenset[int]]] = {}

    def poll_and_look(seconds: float) -> list[Any]:
        events = poll(seconds)
        number = query(tmp_path / "r", "SELECT count(*) FROM block")[0][0]
        if number != numbers[-1]:
            numbers.append(number)
            campaign = load_campaign(tmp_path / "r")
            procedures = declare_procedures(campaign)
            of_look = select_judged_blocks(campaign, procedures).trial["block"]
            judged.setdefault(procedures["solo"].reached, set()).add(frozenset(of_look))
        return events

    hosts.poll = poll_and_look  # type: ignore[method-assign]
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 30)
    assert list_ahead(path) == []
    del judged[None]
    assert set(judged) <= {6, 10, 20, 30}
    assert 30 in judged
    # A block that is lost late may let several looks fall together.
    assert len(judged) > 1 or losses
    for look, sets in judged.items():
        assert sets == {frozenset(range(1, int(look or 0) + 1))}


def test_what_is_ahead_of_a_look_outlives_the_driver(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    class Killed(BaseException):
        """Stands in for a driver that goes without another word."""

    chosen = experiment(design="solo", blocks=12)
    names = [f"h{n:02}" for n in range(12)]
    hosts = SimulatedHosts(names=names, record=measure_noise, slow={"h00": 9.0})
    poll, ahead, stored = hosts.poll, list(range(7, 13)), "SELECT count(*) FROM block"

    def poll_until_killed(seconds: float) -> list[Any]:
        if query(tmp_path / "r", stored) == [(5,)] and list_ahead(tmp_path / "r") == ahead:
            raise Killed
        return poll(seconds)

    hosts.poll = poll_until_killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        simulated_hosts.run(chosen, hosts, tmp_path / "r")
    assert query(tmp_path / "r", "SELECT block FROM block") == [(n,) for n in range(2, 7)]
    again = SimulatedHosts(names=names, record=measure_noise)
    _, path = simulated_hosts.run(chosen, again, tmp_path / "r")
    assert [(block, attempt) for _, _, block, attempt in again.started] == [(1, 1)]
    check_complete(path, chosen, 12)
    assert list_ahead(path) == []


def test_blocks_that_are_ahead_when_the_budget_ends_are_judged_with_the_rest(
    experiment: MakeExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = experiment(design="solo", blocks=30)
    hosts = SimulatedHosts(
        names=[f"h{n:02}" for n in range(15)], record=measure_noise, slow={"h00": 9.0}
    )
    monkeypatch.setattr(
        run_on_hosts.DriverLoop, "_has_budget", lambda loop, design, number: number <= 18
    )
    ending, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    assert ending.why == "budget"
    check_complete(path, chosen, 18)
    assert list_ahead(path) == []
    assert compare_with_baseline(load_campaign(path)).procedures["solo"].reached == 18


def test_a_lost_host_leaves_a_fault_and_its_block_is_drawn_again_elsewhere(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=4)
    losses = iter([True])
    hosts = SimulatedHosts(
        names=["a", "b"],
        lose=lambda draw, variant: variant == "tuned" and next(losses, False),
    )
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 4)
    lost = query(
        path,
        "SELECT block, attempt, variant, fault, fault_text FROM trial WHERE outcome = 'fault'",
    )
    assert [(r[2], r[3]) for r in lost] == [("tuned", "host lost")]
    block, attempt = lost[0][:2]
    on = {(b, a): name for name, _, b, a in hosts.started}
    assert on[block, attempt] != on[block, attempt + 1]
    assert f"host {on[block, attempt]} was lost: it is on fire" in lost[0][4]
    assert any("was lost in the trial of tuned" in text for text in notices.texts)


def test_a_wrong_clock_of_a_host_changes_no_order_of_blocks(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """The blocks of a look are those that were completed first."""
    chosen = experiment(design="solo", blocks=4)
    hosts = SimulatedHosts(names=["a", "b"])
    poll = hosts.poll
    finished: list[str] = []

    def poll_with_wrong_clocks(seconds: float) -> list[Any]:
        events = poll(seconds)
        for number, event in enumerate(events):
            if isinstance(event, HostLine) and b'"kind":"block"' in event.line:
                ended = 1e9 if event.host == "a" else 2e9 - len(finished)
                row = BLOCK_ROW | {"started": ended - 60, "ended": ended}
                events[number] = replace(event, line=encode_message(BlockFinished(row=row)))
                finished.append(event.host)
        return events

    hosts.poll = poll_with_wrong_clocks  # type: ignore[method-assign]
    before = time.time()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    assert {*finished} == {"a", "b"}
    stored = query(
        path,
        "SELECT host, started, ended FROM block JOIN placement USING (design, block, attempt) "
        "ORDER BY ended",
    )
    assert [host for host, _, _ in stored] == finished
    for _, started, ended in stored:
        assert before <= ended <= time.time()
        assert ended - started == pytest.approx(60)


def test_hosts_with_and_without_losses_give_the_verdicts_of_one(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """A trial's figures are those of its block and variant here, whoever runs it."""
    chosen = experiment(design="solo", blocks=10)

    def measure(chosen: Experiment, slot: Slot, host: str) -> TrialRecord:
        record = example_results.record(chosen, slot)
        luck = random.Random(f"{slot.block} {slot.variant} {slot.role}").gauss(0, 0.05)
        peak = int(example_results.SIZES[slot.variant] * math.exp(luck))
        record.trial.rss_peak = peak
        for step in record.select(StepRow):
            step.tps = 1000 * math.exp(luck)
        return record

    def judge(name: str, hosts: SimulatedHosts) -> list[Any]:
        _, path = simulated_hosts.run(chosen, hosts, tmp_path / name)
        return [
            (row.variant, row.metric, row.verdict, row.ratio)
            for row in compare_with_baseline(load_campaign(path)).family
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
def test_many_losses_double_and_lose_nothing(
    experiment: MakeExperiment, tmp_path: Path, seed: int
) -> None:
    chosen = experiment(design="solo", blocks=10)
    hosts = SimulatedHosts(
        names=[f"h{n}" for n in range(40)],
        seed=seed,
        lose=lambda own, variant: own.random() < (0.3 if variant == "tuned" else 0.05),
    )
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    blocks = query(path, "SELECT count(*) FROM block")[0][0]
    check_complete(path, chosen, blocks)
    lost = query(path, "SELECT count(*) FROM trial WHERE fault = 'host lost'")[0][0]
    assert lost == len(hosts.names) - len(hosts.alive)


def test_the_same_command_resumes_after_the_driver_was_lost(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    class Killed(BaseException):
        """Stands in for a driver that goes without another word."""

    chosen = experiment(design="solo", blocks=5)
    hosts = SimulatedHosts(names=["a", "b"])
    polls = iter(range(12))
    answer = hosts.poll

    def poll_until_killed(seconds: float) -> list[Any]:
        if next(polls, None) is None:
            raise Killed
        return answer(seconds)

    hosts.poll = poll_until_killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        simulated_hosts.run(chosen, hosts, tmp_path / "r")
    before = query(tmp_path / "r", "SELECT count(*) FROM trial")[0][0]
    assert before > 0
    _, path = simulated_hosts.run(chosen, SimulatedHosts(names=["a", "b"]), tmp_path / "r")
    check_complete(path, chosen, 5)


TRIAL_ROW = vars(MeasuredTrial(started=1.0))


def make_step(**columns: Any) -> dict[str, Any]:
    return vars(StepRow(step=1, t=0.0, seconds=1.0, **columns))


PIECES = [
    FilePiece(position=1, name=name, data="YQ==") for name in ("server.log", "server.log/more")
]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([b'{"kind": "trial", "position": 1}\n'], "not a message"),
        ([encode_message(TrialStarted(position=99))], "began a trial 99"),
        (
            [encode_message(TrialFinished(position=1, records=[{"trial": [TRIAL_ROW]}]))],
            "not under way",
        ),
        ([encode_message(BlockFinished(row=BLOCK_ROW))], "before all its trials"),
        (
            [
                encode_message(TrialStarted(position=1)),
                encode_message(
                    TrialFinished(
                        position=1, records=[{"trial": [TRIAL_ROW | {"outcome": "splendid"}]}]
                    )
                ),
            ],
            "outcome: 'splendid' is not valid",
        ),
        *(
            (
                [
                    encode_message(TrialStarted(position=1)),
                    encode_message(TrialFinished(position=1, records=[rows])),
                ],
                reason,
            )
            for rows, reason in (
                ({"trial": [TRIAL_ROW | {"proof": "{"}]}, "proof: not JSON"),
                (
                    {"trial": [TRIAL_ROW], "step": [make_step(kind="idle", workload="x")]},
                    "no workload of",
                ),
                (
                    {"trial": [TRIAL_ROW], "step": [make_step(kind="level", threads=99)]},
                    "a level that",
                ),
            )
        ),
        (
            [encode_message(TrialStarted(position=1)), *map(encode_message, PIECES)],
            "a file and a directory of one name",
        ),
    ],
)
def test_a_host_that_answers_nonsense_runs_nothing_more(
    experiment: MakeExperiment, tmp_path: Path, lines: list[bytes], reason: str
) -> None:
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a", "b"])
    start = hosts.start_block

    def start_or_lie(host: Any, request: Any) -> None:
        start(host, request)
        if host.name == "a":
            hosts.events = [e for e in hosts.events if e[2].host != "a"]
            for line in lines:
                hosts._push(hosts.now, HostLine(host="a", line=line))

    hosts.start_block = start_or_lie  # type: ignore[method-assign]
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 2)
    assert [name for name, *_ in hosts.started].count("a") == 1
    assert any("answer cannot be used" in t and reason in t for t in notices.texts), notices.texts


def test_a_host_whose_blocks_always_end_early_runs_nothing_more(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=6)
    hosts = SimulatedHosts(names=["a", "b"])
    start = hosts.start_block

    def start_or_crash(host: Any, request: Any) -> None:
        start(host, request)
        if host.name == "a":
            hosts.events = [e for e in hosts.events if e[2].host != "a"]
            line = encode_message(Ended(status=-9, log="Killed"))
            hosts._push(hosts.now, HostLine(host="a", line=line))

    hosts.start_block = start_or_crash  # type: ignore[method-assign]
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 6)
    assert [name for name, *_ in hosts.started].count("a") == 3


@pytest.mark.parametrize("hosts_at_once", [2, 10])
def test_a_disturbed_block_is_repeated_whole_and_only_so_often(
    experiment: MakeExperiment, tmp_path: Path, hosts_at_once: int
) -> None:
    chosen = experiment(design="solo", blocks=10, noise={"repeats": 2})
    names = [f"h{n}" for n in range(hosts_at_once)]
    hosts = SimulatedHosts(
        names=names, record=measure_noise, disturb=lambda block, attempt: "others"
    )
    simulated_hosts.run(chosen, hosts, tmp_path / "r")
    attempts = query(tmp_path / "r", "SELECT block, attempt FROM block")
    assert len(attempts) == 12
    assert {block for block, _ in attempts} == set(range(1, 11))


@pytest.mark.parametrize("losses", [0.0, 0.05])
def test_a_look_waits_for_the_repeats_of_its_blocks_and_is_judged_once(
    experiment: MakeExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: float
) -> None:
    """Block 2 has the last repeat but one; while that of block 3 goes on, no other may make block 3
    complete.
    """
    judge, judged = CampaignRun.end_if_decided, []

    def end_if_decided(run: CampaignRun, design: str, number: int, planned: int) -> None:
        judged.append((number, query(tmp_path / "r", "SELECT block, max(attempt) FROM block "
                                     f"WHERE block <= {number} GROUP BY block")))  # fmt: skip
        judge(run, design, number, planned)

    monkeypatch.setattr(CampaignRun, "end_if_decided", end_if_decided)
    chosen = experiment(design="solo", blocks=10, noise={"repeats": 1})
    hosts = SimulatedHosts(
        names=[f"h{n}" for n in range(7)],
        record=measure_noise,
        disturb=lambda block, attempt: "others" if block in (2, 3) else None,
        slow_attempts={(2, 0): 1.2, (3, 1): 3.0, (2, 1): 3.0},
        lose=lambda own, variant: own.random() < losses,
    )
    simulated_hosts.run(chosen, hosts, tmp_path / "r")
    attempts = dict(query(tmp_path / "r", "SELECT block, max(attempt) FROM block GROUP BY block"))
    numbers = [number for number, _ in judged if number > 1]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 10
    for number, seen in judged:
        if number > 1:
            assert dict(seen) == {n: attempts[n] for n in range(1, number + 1)}
    rows = query(tmp_path / "r", "SELECT count(*) FROM block")
    assert rows == [(11,)]


def test_a_client_apart_gets_what_the_block_asks_and_answers_it(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=4)
    hosts = SimulatedHosts(names=["a", "b", "x", "y"], clients=["x", "y"])
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 4)
    assert hosts.most_at_once == 2
    assert {server for server, _ in hosts.pairs} == {"a", "b"}
    assert {client for _, client in hosts.pairs} == {"x", "y"}
    of_client = Counter(name for name, line in hosts.handed if b'"kind":"load"' in line)
    of_server = Counter(name for name, line in hosts.handed if b'"load finished"' in line)
    trials = len(schedule.order_block(chosen, 1)) * 4
    assert sum(of_client.values()) == sum(of_server.values()) == trials
    assert set(of_client) == {"x", "y"}
    ready = [name for name, line in hosts.handed if b'"client ready"' in line]
    assert sorted(ready) == sorted(server for server, _ in hosts.pairs)
    assert not hosts.running
    assert query(path, "SELECT value FROM campaign WHERE key = 'clients'") == [("apart",)]
    assert set(query(path, "SELECT host, client FROM placement")) == set(hosts.pairs)
    assert [name for (name,) in query(path, "SELECT host FROM host")] == ["a", "b", "x", "y"]
    assert len(split_by_host(load_campaign(path))) == 2


def test_a_lost_client_host_ends_its_block_which_is_drawn_again(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=3)
    losses = iter([False, True])
    hosts = SimulatedHosts(
        names=["a", "x", "y"], clients=["x", "y"], lose_client=lambda draw: next(losses, False)
    )
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 3)
    lost = query(path, "SELECT fault, fault_text FROM trial WHERE outcome = 'fault'")
    assert lost == [("host lost", "its client host x was lost: it fell over")]
    assert hosts.alive == {"a", "y"}
    # The server's host, which lives, is not thought less of, but its block had another client.
    assert [client for _, client in hosts.pairs] == ["x", "y", "y", "y"]


def test_without_a_client_host_a_campaign_with_clients_apart_does_not_go_on(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    hosts = SimulatedHosts(names=["a", "b", "x"], clients=["x"], lose_client=lambda draw: True)
    with pytest.raises(Failure, match="no pair of hosts is left"):
        simulated_hosts.run(experiment(design="solo", blocks=3), hosts, tmp_path / "r")
    # Nor when it is resumed on hosts that would do for clients beside their servers.
    rest = SimulatedHosts(names=["a", "b"])
    with pytest.raises(Failure, match="no pair of hosts is left"):
        simulated_hosts.run(experiment(design="solo", blocks=3), rest, tmp_path / "r")


@pytest.mark.parametrize(
    ("host", "message", "reason"),
    [
        ("x", TrialStarted(position=1), "answered as if it ran the block"),
        ("a", ClientReady(key="k", sysbench="1.0"), "answered as if it were a client"),
        ("x", BlockFinished(row=BLOCK_ROW), "answered as if it ran the block"),
    ],
)
def test_a_host_that_answers_for_the_other_runs_nothing_more(
    experiment: MakeExperiment, tmp_path: Path, host: str, message: Any, reason: str
) -> None:
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a", "b", "x", "y"], clients=["x", "y"])
    start = hosts.start_block
    lies = iter([HostLine(host=host, line=encode_message(message))])

    def start_and_lie(server: Any, request: Any) -> None:
        start(server, request)
        if host in (server.name, request.client.host) and (lie := next(lies, None)):
            hosts._push(hosts.now, lie)

    hosts.start_block = start_and_lie  # type: ignore[method-assign]
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 2)
    assert any(reason in text and host in text for text in notices.texts), notices.texts


def test_a_load_that_no_client_host_is_for_is_refused(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    hosts = SimulatedHosts(names=["a"])
    start = hosts.start_block

    def start_and_ask(server: Any, request: Any) -> None:
        start(server, request)
        hosts._push(hosts.now, HostLine(host="a", line=encode_message(LoadStopped(number=1))))

    hosts.start_block = start_and_ask  # type: ignore[method-assign]
    with pytest.raises(Failure, match="asked for a load from another host"):
        simulated_hosts.run(experiment(design="solo", blocks=1), hosts, tmp_path / "r")
