"""Trials that were under way when the driver went: a host that went with it leaves a fault, and one
that went on leaves none.
"""

from typing import Any

import pytest
from simulated_hosts import Drive, KilledDriver, SimulatedHosts

from dballoc.campaign.elsewhere.executor import HostLost
from dballoc.campaign.elsewhere.place_blocks import Host
from dballoc.ground.errors import Failure

pytestmark = pytest.mark.long

LOST = "SELECT block, variant, fault_text FROM trial WHERE fault = 'host lost' ORDER BY attempt"
UNDER_WAY = "SELECT block, attempt, host FROM trial_under_way"


def run_until_jemalloc(drive: Drive, boot: int = 1) -> None:
    """Run a campaign whose driver goes in the middle of the first trial of jemalloc."""
    hosts = SimulatedHosts(names=["a"], boot=boot)
    loses, is_begun = hosts.lose, []

    def note(draw: Any, of: str) -> bool:
        # The simulation plans a block's trials when it begins.
        is_begun.append(of)
        return loses(draw, of)

    hosts.lose = note

    def poll_until_killed(events: list[Any]) -> list[Any]:
        begun = drive.query("SELECT position, block, attempt FROM trial_under_way")
        if begun and is_begun[begun[0][0] - 1] == "jemalloc":
            raise KilledDriver
        return events

    hosts.on_poll = poll_until_killed
    with pytest.raises(KilledDriver):
        drive(hosts, blocks=3)


def test_a_host_that_went_with_the_driver_is_a_fault_each_time(drive: Drive) -> None:
    for boot in (1, 2, 3):
        run_until_jemalloc(drive, boot)
    drive(SimulatedHosts(names=["a"], boot=4), blocks=3)
    why = "its host a was lost: it has started anew since the driver went in this trial"
    assert drive.query(LOST) == [(1, "jemalloc", why)] * 3
    assert any("a was lost in the trial of jemalloc" in text for text in drive.notices)
    assert drive.query(UNDER_WAY) == []


def test_a_host_that_went_on_without_the_driver_leaves_no_fault(drive: Drive) -> None:
    run_until_jemalloc(drive)
    [(block, _, host)] = drive.query(UNDER_WAY)
    assert (block, host) == (1, "a")
    drive(SimulatedHosts(names=["a"]), blocks=3)
    assert drive.query(LOST) == []
    assert any("without a word while a was in the trial of jemalloc" in t for t in drive.notices)


def test_a_host_that_does_not_come_back_is_a_fault_when_all_has_ended(drive: Drive) -> None:
    run_until_jemalloc(drive)
    drive(SimulatedHosts(names=["b"]), blocks=3)
    [(_, variant, text)] = drive.query(LOST)
    assert variant == "jemalloc"
    assert "has not come back" in text


def test_a_host_that_comes_back_late_is_judged_then(drive: Drive) -> None:
    run_until_jemalloc(drive)
    hosts = SimulatedHosts(names=["b", "a"], boot=2)
    list_hosts = hosts.list_hosts

    def list_hosts_as_they_come() -> list[Host]:
        return [host for host in list_hosts() if host.name == "b" or hosts.now > 300]

    hosts.list_hosts = list_hosts_as_they_come  # type: ignore[method-assign]
    drive(hosts, blocks=3)
    [(_, variant, text)] = drive.query(LOST)
    assert variant == "jemalloc"
    assert "started anew" in text


def test_what_the_driver_ends_itself_is_no_fault(drive: Drive) -> None:
    """It gives up because of one host, while another is in a trial."""
    hosts = SimulatedHosts(names=["a", "b"])

    def poll_until_it_fails(events: list[Any]) -> list[Any]:
        if drive.query("SELECT count(*) FROM trial_under_way") == [(2,)]:
            raise Failure("enough")
        return events

    hosts.on_poll = poll_until_it_fails
    with pytest.raises(Failure, match="enough"):
        drive(hosts, blocks=3)
    assert drive.query(UNDER_WAY) == []
    drive(SimulatedHosts(names=["a", "b"], boot=2), blocks=3)
    assert drive.query(LOST) == []


def test_a_host_that_is_lost_while_the_driver_lives_is_a_fault_once(drive: Drive) -> None:
    hosts = SimulatedHosts(names=["a", "b"])
    lost = HostLost(host="a", reason="it is on fire", is_alive=False)

    def poll_and_lose(events: list[Any]) -> list[Any]:
        if "a" in hosts.running and drive.query("SELECT 1 FROM trial_under_way WHERE host = 'a'"):
            hosts.alive.discard("a")
            return [*events, lost]
        return events

    hosts.on_poll = poll_and_lose
    drive(hosts, blocks=3)
    assert len(drive.query(LOST)) == 1
    assert drive.query(UNDER_WAY) == []
