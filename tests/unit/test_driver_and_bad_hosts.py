"""The driver of a campaign on many hosts, where hosts fail in the middle, hang, or lie."""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import simulated_hosts
from simulated_hosts import SimulatedHosts
from test_driver_of_hosts import BLOCK_ROW, Notices, check_complete, measure_noise, query

from dballoc.errors import Failure
from dballoc.experiment import schedule
from dballoc.experiment.model import Experiment
from dballoc.hosts.block_messages import (
    MOST_NOTICES,
    BlockFinished,
    BlockRefused,
    FilePiece,
    Notice,
    TrialStarted,
)
from dballoc.hosts.client.load_messages import (
    ClientReady,
    LoadFinished,
    LoadRequested,
    LoadStopped,
)
from dballoc.hosts.driver import run_on_hosts
from dballoc.hosts.executor import HostLine, HostLost
from dballoc.hosts.message_stream import encode_message

MakeExperiment = Callable[..., Experiment]


def answer_instead(
    hosts: SimulatedHosts, name: str, messages: Callable[[], Iterable[Any]], times: int = 1
) -> None:
    """Let the first blocks on a host answer these messages and nothing else."""
    start, left = hosts.start_block, itertools.repeat(True, times)

    def start_or_answer(host: Any, request: Any) -> None:
        start(host, request)
        if host.name == name and next(left, False):
            hosts.events = [e for e in hosts.events if e[2].host != name]
            for message in messages():
                hosts._push(hosts.now, HostLine(host=name, line=encode_message(message)))

    hosts.start_block = start_or_answer  # type: ignore[method-assign]


def test_a_trial_that_its_host_breaks_off_is_stored_and_its_block_drawn_again(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=4)
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(
        hosts, "a", lambda: [TrialStarted(position=1), BlockRefused(text="its disk is full")]
    )
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 4)
    faults = query(path, "SELECT fault, fault_text FROM trial WHERE outcome = 'fault'")
    assert [fault for fault, _ in faults] == ["host lost"]
    assert "its disk is full" in faults[0][1]
    # It may be for once, so the host goes on.
    assert [name for name, *_ in hosts.started].count("a") > 1


def test_a_host_that_breaks_off_every_trial_runs_nothing_more(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=6)
    hosts = SimulatedHosts(names=["a", "b"])
    refused = [TrialStarted(position=1), BlockRefused(text="its disk is full")]
    answer_instead(hosts, "a", lambda: refused, times=99)
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 6)
    assert [name for name, *_ in hosts.started].count("a") == 3


def test_a_host_gets_its_next_block_when_the_last_has_cleaned_up(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    hosts = SimulatedHosts(names=["a"], cleaning=30.0)
    ended: list[float] = []
    begun: list[float] = []
    start, end = hosts.start_block, hosts.end_block

    def note_start(host: Any, request: Any) -> None:
        begun.append(hosts.now)
        start(host, request)

    def note_end(host: str) -> None:
        ended.append(hosts.now)
        end(host)

    hosts.start_block = note_start  # type: ignore[method-assign]
    hosts.end_block = note_end  # type: ignore[method-assign]
    chosen = experiment(design="solo", blocks=2)
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    finished = [at for (at,) in query(path, "SELECT count(*) FROM block")]
    assert finished == [2]
    trials = len(schedule.order_block(chosen, 1))
    assert begun[1] >= 0.9 * trials * simulated_hosts.TRIAL_SECONDS + 30.0
    # Its process was not killed while it cleaned up, the last one's neither.
    assert ended[0] == begun[1]
    assert len(ended) == 2
    assert hosts.cleaned == 2


def test_a_host_that_never_ends_its_process_does_not_hold_the_campaign_up(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=3)
    hosts = SimulatedHosts(names=["a"], cleaning=1e9)
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 3)
    assert hosts.now < 100_000


def note_starts(hosts: SimulatedHosts) -> list[tuple[str, float]]:
    """The hosts that blocks are given to, and when; filled as the campaign runs."""
    start, begun = hosts.start_block, []

    def start_and_note(host: Any, request: Any) -> None:
        begun.append((host.name, hosts.now))
        start(host, request)

    hosts.start_block = start_and_note  # type: ignore[method-assign]
    return begun


def test_a_host_that_cleans_up_for_too_long_is_left_alone_for_a_while(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a"], cleaning=1e9)
    begun, ended = note_starts(hosts), []
    end = hosts.end_block

    def note_end(host: str) -> None:
        ended.append(hosts.now)
        end(host)

    hosts.end_block = note_end  # type: ignore[method-assign]
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 2)
    # The old guardian goes on when its block is let go.
    assert begun[1][1] - ended[0] >= 300
    assert any("a had not cleaned up 10 minutes after" in text for text in notices.texts)


LOCKED = BlockRefused(text="/run/dballoc: still locked by the guardian of dballoc", is_passing=True)


def test_a_host_that_is_locked_by_an_earlier_run_is_asked_again_later(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=12)
    hosts = SimulatedHosts(names=["a", "b"], record=measure_noise)
    answer_instead(hosts, "a", lambda: [LOCKED], times=2)
    begun = note_starts(hosts)
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 12)
    times = [at for name, at in begun if name == "a"]
    assert len(times) > 3
    assert times[1] - times[0] >= 300
    assert times[2] - times[1] >= 300
    assert query(path, "SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]


def test_a_host_that_stays_locked_holds_nothing_up(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(hosts, "a", lambda: [LOCKED], times=99)
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 2)
    locked = SimulatedHosts(names=["a"])
    answer_instead(locked, "a", lambda: [LOCKED], times=99)
    with pytest.raises(Failure, match="still locked by the guardian"):
        simulated_hosts.run(chosen, locked, tmp_path / "s")
    assert [name for name, *_ in locked.started] == ["a"] * 3


def test_a_block_that_never_ends_is_drawn_again(experiment: MakeExperiment, tmp_path: Path) -> None:
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(hosts, "a", lambda: [TrialStarted(position=1)])
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 2)
    faults = query(path, "SELECT fault_text FROM trial WHERE outcome = 'fault'")
    assert len(faults) == 1
    assert "had not ended after" in faults[0][0]


def test_a_lost_host_is_awaited_where_another_was_refused(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=3)
    losses = iter([True])
    hosts = SimulatedHosts(names=["a", "b"])
    hosts.lose = lambda draw, variant: "b" in hosts.running and next(losses, False)
    answer_instead(hosts, "a", lambda: [BlockRefused(text="another allocator")], times=99)
    poll, lost_at = hosts.poll, []

    def poll_and_restart(seconds: float) -> list[Any]:
        events = poll(seconds)
        if "b" not in hosts.alive:
            lost_at.append(hosts.now)
            if hosts.now > lost_at[0] + 60:
                hosts.alive.add("b")
        return events

    hosts.poll = poll_and_restart  # type: ignore[method-assign]
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 3)
    assert len(lost_at) > 1


def test_a_block_that_every_host_loses_ends_the_campaign(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    hosts = SimulatedHosts(names=["a", "b"], lose=lambda draw, variant: variant == "tuned")
    poll = hosts.poll

    def poll_and_restart(seconds: float) -> list[Any]:
        events = poll(seconds)
        hosts.alive = {"a", "b"}  # as where lost hosts are started again by themselves
        return events

    hosts.poll = poll_and_restart  # type: ignore[method-assign]
    with pytest.raises(Failure, match=r"block 1 was lost \d+ times, last in the trial of tuned"):
        simulated_hosts.run(experiment(design="solo", blocks=2), hosts, tmp_path / "r")
    lost = query(tmp_path / "r", "SELECT variant, count(*) FROM trial WHERE fault = 'host lost'")
    assert lost[0][0] == "tuned"
    assert run_on_hosts.MOST_LOSSES <= lost[0][1] <= 2 * run_on_hosts.MOST_LOSSES


def test_hosts_that_another_campaign_has_are_left_out(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """However many they are: it is not the block that cannot be run."""
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=[f"h{n:02}" for n in range(12)], slow={"h11": 9.0})
    start = hosts.start_block

    def start_or_wait(host: Any, request: Any) -> None:
        start(host, request)
        if host.name != "h11":
            hosts.events = [e for e in hosts.events if e[2].host != host.name]
            lost = HostLost(host=host.name, reason="no process began there", is_alive=True)
            hosts._push(hosts.now + 45.0, lost)

    hosts.start_block = start_or_wait  # type: ignore[method-assign]
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 2)
    assert query(path, "SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]
    tried = [name for name, *_ in hosts.started]
    assert all(tried.count(name) == 3 for name in hosts.names[:11])


LOAD = LoadRequested(
    number=1,
    workload="oltp_read_only",
    threads=1,
    seconds=1.0,
    engine="innodb",
    port=3306,
    password="sealed",
)
BEGUN = TrialStarted(position=1)
PIECE = FilePiece(position=1, name="server.log", data="YQ==")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        # Each would begin the bound of a trial's bytes anew.
        ([BEGUN, PIECE, BEGUN], "began a trial while another was under way"),
        ([BEGUN, TrialStarted(position=2)], "began a trial while another was under way"),
        ([Notice(text="buy now")] * (MOST_NOTICES + 1), "more notices than"),
        ([BlockFinished(row=BLOCK_ROW | {"probe_before": -1.0})], "probe_before"),
        ([BlockFinished(row=BLOCK_ROW | {"probe_after": 1e12})], "probe_after"),
    ],
)
def test_a_host_that_floods_the_driver_runs_nothing_more(
    experiment: MakeExperiment, tmp_path: Path, messages: list[Any], reason: str
) -> None:
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(hosts, "a", lambda: messages)
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 2)
    assert [name for name, *_ in hosts.started].count("a") == 1
    assert any("answer cannot be used" in t and reason in t for t in notices.texts), notices.texts


FINISHED = LoadFinished(number=1, status=0, printed="")


@pytest.mark.parametrize(
    ("host", "messages", "reason"),
    [
        ("a", [LOAD], "asked for a load out of turn"),
        ("a", [BEGUN, LOAD, LOAD], "asked for a load out of turn"),
        ("a", [BEGUN, LoadStopped(number=7)], "stopped a load"),
        ("a", [BEGUN, LOAD, *[LoadStopped(number=1)] * 99], "stopped a load"),
        ("x", [FINISHED], "answered of a load"),
        ("x", [ClientReady(key="another", sysbench="1.0")], "began twice"),
    ],
)
def test_hosts_hand_each_other_no_more_than_was_asked(
    experiment: MakeExperiment, tmp_path: Path, host: str, messages: list[Any], reason: str
) -> None:
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a", "b", "x", "y"], clients=["x", "y"])
    start, lies = hosts.start_block, iter([True])

    def start_and_lie(server: Any, request: Any) -> None:
        start(server, request)
        if host in (server.name, request.client.host) and next(lies, False):
            ready = HostLine(
                host=request.client.host, line=encode_message(ClientReady(key="k", sysbench="1.0"))
            )
            both = server.name, request.client.host
            hosts.events = [e for e in hosts.events if e[2].host not in both]
            hosts._push(hosts.now, ready)
            for message in messages:
                hosts._push(hosts.now + 1, HostLine(host=host, line=encode_message(message)))

    hosts.start_block = start_and_lie  # type: ignore[method-assign]
    notices = Notices()
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r", notices)
    check_complete(path, chosen, 2)
    assert any(reason in text and host in text for text in notices.texts), notices.texts


def test_a_client_that_fails_is_to_blame_and_not_its_server(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=6)
    hosts = SimulatedHosts(names=["a", "x", "y"], clients=["x", "y"])
    start = hosts.start_block

    def start_or_fail(server: Any, request: Any) -> None:
        start(server, request)
        if request.client.host == "x":
            hosts.events = [e for e in hosts.events if e[2].host not in ("a", "x")]
            refused = BlockRefused(text="the client host x did not begin", blames_client=True)
            hosts._push(hosts.now, HostLine(host="a", line=encode_message(refused)))

    hosts.start_block = start_or_fail  # type: ignore[method-assign]
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 6)
    assert [client for _, client in hosts.pairs].count("x") == 3


def test_late_answers_of_a_lost_block_are_not_taken(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """The executor forgets a block that was let go; what it still says meanwhile counts nowhere."""
    chosen = experiment(design="solo", blocks=2)
    hosts = SimulatedHosts(names=["a", "b"])
    late = iter([True])
    poll = hosts.poll

    def poll_with_late_answers(seconds: float) -> list[Any]:
        events = poll(seconds)
        for event in events:
            if isinstance(event, HostLine) and b'"trial"' in event.line and next(late, False):
                lost = HostLost(host=event.host, reason="cut off", is_alive=True)
                block = encode_message(BlockFinished(row=BLOCK_ROW))
                return [lost, event, HostLine(host=event.host, line=block)]
        return events

    hosts.poll = poll_with_late_answers  # type: ignore[method-assign]
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 2)
    positions = query(
        path,
        "SELECT count(*), count(DISTINCT block || ' ' || attempt || ' ' || position) FROM trial",
    )
    assert positions[0][0] == positions[0][1]
    assert query(path, "SELECT count(*) FROM trial WHERE fault = 'host lost'") == [(1,)]


def test_a_host_that_is_lost_while_it_cleans_up_loses_no_block(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    chosen = experiment(design="solo", blocks=3)
    hosts = SimulatedHosts(names=["a", "b"], cleaning=30.0)
    poll, losses = hosts.poll, iter([True])

    def poll_and_lose(seconds: float) -> list[Any]:
        events = poll(seconds)
        for event in events:
            if (
                isinstance(event, HostLine)
                and b'"kind":"block"' in event.line
                and next(losses, False)
            ):
                hosts.alive.discard(event.host)
                return [event, HostLost(host=event.host, reason="killed", is_alive=False)]
        return events

    hosts.poll = poll_and_lose  # type: ignore[method-assign]
    _, path = simulated_hosts.run(chosen, hosts, tmp_path / "r")
    check_complete(path, chosen, 3)
    assert query(path, "SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]
    assert len(hosts.alive) == 1
