"""The driver of a campaign on many hosts, where hosts fail in the middle, hang, or lie."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import simulated_hosts
from simulated_hosts import Drive, SimulatedHosts
from test_driver_of_hosts import BLOCK_ROW, measure_noise

from dballoc.campaign.elsewhere.block_messages import BlockFinished, BlockRefused, TrialStarted
from dballoc.campaign.elsewhere.client.load_messages import (
    ClientReady,
    LoadFinished,
    LoadRequested,
    LoadStopped,
)
from dballoc.campaign.elsewhere.driver import run_on_hosts
from dballoc.campaign.elsewhere.executor import HostLine, HostLost
from dballoc.campaign.elsewhere.message_stream import encode_message
from dballoc.experiment import schedule
from dballoc.ground.errors import Failure

pytestmark = pytest.mark.long

BEGUN = TrialStarted(position=1)
FULL = BlockRefused(text="its disk is full")


def answer_instead(hosts: SimulatedHosts, name: str, *messages: Any, times: int = 1) -> None:
    """Let the first blocks on a host answer these messages and nothing else."""
    left = itertools.repeat(True, times)

    def answer(host: Any, request: Any) -> None:
        if host.name == name and next(left, False):
            hosts.answer_instead(name, messages)

    hosts.on_start = answer


def test_a_trial_that_its_host_breaks_off_is_stored_and_its_block_drawn_again(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(hosts, "a", BEGUN, FULL)
    drive(hosts, blocks=4)
    faults = drive.query("SELECT fault, fault_text FROM trial WHERE outcome = 'fault'")
    assert [fault for fault, _ in faults] == ["host lost"]
    assert "its disk is full" in faults[0][1]
    # It may be for once, so the host goes on.
    assert [name for name, *_ in hosts.started].count("a") > 1


def test_a_host_that_breaks_off_every_trial_runs_nothing_more(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(hosts, "a", BEGUN, FULL, times=99)
    drive(hosts, blocks=6)
    assert [name for name, *_ in hosts.started].count("a") == 3


def test_a_host_gets_its_next_block_when_the_last_has_cleaned_up(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a"], cleaning=30.0)
    drive(hosts, blocks=2)
    trials = len(schedule.order_block(drive.experiment(design="solo"), 1))
    begun = [at for _, at in hosts.begun]
    assert begun[1] >= 0.9 * trials * simulated_hosts.TRIAL_SECONDS + 30.0
    # Its process was not killed while it cleaned up, the last one's neither.
    assert hosts.let_go[0] == begun[1]
    assert len(hosts.let_go) == 2
    assert hosts.cleaned == 2


def test_a_host_that_never_ends_its_process_does_not_hold_the_campaign_up(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a"], cleaning=1e9)
    drive(hosts, blocks=3)
    assert hosts.now < 100_000


def test_a_host_that_cleans_up_for_too_long_is_left_alone_for_a_while(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a"], cleaning=1e9)
    drive(hosts, blocks=2)
    # The old guardian goes on when its block is let go.
    assert hosts.begun[1][1] - hosts.let_go[0] >= 300
    assert any("a had not cleaned up 10 minutes after" in text for text in drive.notices)


LOCKED = BlockRefused(text="/run/dballoc: still locked by the guardian of dballoc", is_passing=True)


def test_a_host_that_is_locked_by_an_earlier_run_is_asked_again_later(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"], record=measure_noise)
    answer_instead(hosts, "a", LOCKED, times=2)
    drive(hosts, blocks=12)
    times = [at for name, at in hosts.begun if name == "a"]
    assert len(times) > 3
    assert times[1] - times[0] >= 300
    assert times[2] - times[1] >= 300
    assert drive.query("SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]


def test_a_host_that_stays_locked_holds_nothing_up(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(hosts, "a", LOCKED, times=99)
    drive(hosts, blocks=2)
    locked = SimulatedHosts(names=["a"])
    answer_instead(locked, "a", LOCKED, times=99)
    with pytest.raises(Failure, match="still locked by the guardian"):
        replace(drive, path=drive.path / "s")(locked, blocks=2)
    assert [name for name, *_ in locked.started] == ["a"] * 3


def test_a_block_that_never_ends_is_drawn_again(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"])
    answer_instead(hosts, "a", BEGUN)
    drive(hosts, blocks=2)
    faults = drive.query("SELECT fault_text FROM trial WHERE outcome = 'fault'")
    assert len(faults) == 1
    assert "had not ended after" in faults[0][0]


def test_a_lost_host_is_awaited_where_another_was_refused(drive: Drive) -> None:
    losses = iter([True])
    hosts = SimulatedHosts(names=["a", "b"])
    hosts.lose = lambda draw, variant: "b" in hosts.running and next(losses, False)
    answer_instead(hosts, "a", BlockRefused(text="another allocator"), times=99)
    lost_at = []

    def poll_and_restart(events: list[Any]) -> list[Any]:
        if "b" not in hosts.alive:
            lost_at.append(hosts.now)
            if hosts.now > lost_at[0] + 60:
                hosts.alive.add("b")
        return events

    hosts.on_poll = poll_and_restart
    drive(hosts, blocks=3)
    assert len(lost_at) > 1


def test_a_block_that_every_host_loses_ends_the_campaign(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"], lose=lambda draw, variant: variant == "tuned")

    def poll_and_restart(events: list[Any]) -> list[Any]:
        hosts.alive = {"a", "b"}  # as where lost hosts are started again by themselves
        return events

    hosts.on_poll = poll_and_restart
    with pytest.raises(Failure, match=r"block 1 was lost \d+ times, last in the trial of tuned"):
        drive(hosts, blocks=2)
    lost = drive.query("SELECT variant, count(*) FROM trial WHERE fault = 'host lost'")
    assert lost[0][0] == "tuned"
    assert run_on_hosts.MOST_LOSSES <= lost[0][1] <= 2 * run_on_hosts.MOST_LOSSES


def test_hosts_that_another_campaign_has_are_left_out(drive: Drive) -> None:
    """However many they are: it is not the block that cannot be run."""
    hosts = SimulatedHosts(names=[f"h{n:02}" for n in range(12)], slow={"h11": 9.0})

    def start_or_wait(host: Any, request: Any) -> None:
        if host.name != "h11":
            hosts.answer_instead(host.name, [])
            lost = HostLost(host=host.name, reason="no process began there", is_alive=True)
            hosts._push(hosts.now + 45.0, lost)

    hosts.on_start = start_or_wait
    drive(hosts, blocks=2)
    assert drive.query("SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]
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
    drive: Drive, host: str, messages: list[Any], reason: str
) -> None:
    hosts = SimulatedHosts(names=["a", "b", "x", "y"], clients=["x", "y"])
    lies = iter([True])

    def start_and_lie(server: Any, request: Any) -> None:
        if host in (server.name, request.client.host) and next(lies, False):
            hosts.answer_instead(server.name, [])
            hosts.answer_instead(request.client.host, [ClientReady(key="k", sysbench="1.0")])
            for message in messages:
                hosts._push(hosts.now + 1, HostLine(host=host, line=encode_message(message)))

    hosts.on_start = start_and_lie
    drive(hosts, blocks=2)
    assert any(reason in text and host in text for text in drive.notices), drive.notices


def test_a_client_that_fails_is_to_blame_and_not_its_server(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "x", "y"], clients=["x", "y"])

    def start_or_fail(server: Any, request: Any) -> None:
        if request.client.host == "x":
            refused = BlockRefused(text="the client host x did not begin", blames_client=True)
            hosts.answer_instead("x", [])
            hosts.answer_instead("a", [refused])

    hosts.on_start = start_or_fail
    drive(hosts, blocks=6)
    assert [client for _, client in hosts.pairs].count("x") == 3


def test_late_answers_of_a_lost_block_are_not_taken(drive: Drive) -> None:
    """The executor forgets a block that was let go; what it still says meanwhile counts nowhere."""
    hosts = SimulatedHosts(names=["a", "b"])
    late = iter([True])

    def poll_with_late_answers(events: list[Any]) -> list[Any]:
        for event in events:
            if isinstance(event, HostLine) and b'"trial"' in event.line and next(late, False):
                lost = HostLost(host=event.host, reason="cut off", is_alive=True)
                block = encode_message(BlockFinished(row=BLOCK_ROW))
                return [lost, event, HostLine(host=event.host, line=block)]
        return events

    hosts.on_poll = poll_with_late_answers
    drive(hosts, blocks=2)
    positions = drive.query(
        "SELECT count(*), count(DISTINCT block || ' ' || attempt || ' ' || position) FROM trial",
    )
    assert positions[0][0] == positions[0][1]
    assert drive.query("SELECT count(*) FROM trial WHERE fault = 'host lost'") == [(1,)]


def test_a_host_that_is_lost_while_it_cleans_up_loses_no_block(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"], cleaning=30.0)
    losses = iter([True])

    def poll_and_lose(events: list[Any]) -> list[Any]:
        for event in events:
            if (
                isinstance(event, HostLine)
                and b'"kind":"block"' in event.line
                and next(losses, False)
            ):
                hosts.alive.discard(event.host)
                return [event, HostLost(host=event.host, reason="killed", is_alive=False)]
        return events

    hosts.on_poll = poll_and_lose
    drive(hosts, blocks=3)
    assert drive.query("SELECT count(*) FROM trial WHERE outcome = 'fault'") == [(0,)]
    assert len(hosts.alive) == 1
