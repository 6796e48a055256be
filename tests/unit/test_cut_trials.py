"""Trials that were under way when the driver went: a host that went with it leaves a fault, and one
that went on leaves none.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated_hosts
from simulated_hosts import SimulatedHosts
from test_driver_of_hosts import Notices, check_complete, query

from dballoc.errors import Failure
from dballoc.experiment.model import Experiment
from dballoc.hosts.executor import HostLost
from dballoc.hosts.place_blocks import Host

MakeExperiment = Callable[..., Experiment]

LOST = "SELECT block, variant, fault_text FROM trial WHERE fault = 'host lost' ORDER BY attempt"
UNDER_WAY = "SELECT block, attempt, host FROM trial_under_way"


class Killed(BaseException):
    """Stands in for a driver that goes without another word."""


def run_until_trial(
    experiment: Experiment, path: Path, hosts: SimulatedHosts, variant: str, observer: Any = None
) -> None:
    """Run a campaign whose driver goes in the middle of the first trial of a variant."""
    poll = hosts.poll
    loses, is_begun = hosts.lose, []

    def note(draw: Any, of: str) -> bool:
        # The simulation plans a block's trials when it begins.
        is_begun.append(of)
        return loses(draw, of)

    hosts.lose = note

    def poll_until_killed(seconds: float) -> list[Any]:
        begun = query(path, "SELECT position, block, attempt FROM trial_under_way")
        if begun and is_begun[begun[0][0] - 1] == variant:
            raise Killed
        return poll(seconds)

    hosts.poll = poll_until_killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        simulated_hosts.run(experiment, hosts, path, observer)


def test_a_host_that_went_with_the_driver_is_a_fault_each_time(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    path, chosen = tmp_path / "r", experiment(design="solo", blocks=3)
    for boot in (1, 2, 3):
        run_until_trial(chosen, path, SimulatedHosts(names=["a"], boot=boot), "jemalloc")
    notices = Notices()
    simulated_hosts.run(chosen, SimulatedHosts(names=["a"], boot=4), path, notices)
    check_complete(path, chosen, 3)
    why = "its host a was lost: it has started anew since the driver went in this trial"
    assert query(path, LOST) == [(1, "jemalloc", why)] * 3
    assert any("a was lost in the trial of jemalloc" in text for text in notices.texts)
    assert query(path, UNDER_WAY) == []


def test_a_host_that_went_on_without_the_driver_leaves_no_fault(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    path, chosen = tmp_path / "r", experiment(design="solo", blocks=3)
    run_until_trial(chosen, path, SimulatedHosts(names=["a"]), "jemalloc")
    [(block, _, host)] = query(path, UNDER_WAY)
    assert (block, host) == (1, "a")
    notices = Notices()
    simulated_hosts.run(chosen, SimulatedHosts(names=["a"]), path, notices)
    check_complete(path, chosen, 3)
    assert query(path, LOST) == []
    assert any("without a word while a was in the trial of jemalloc" in t for t in notices.texts)


def test_a_host_that_does_not_come_back_is_a_fault_when_all_has_ended(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    path, chosen = tmp_path / "r", experiment(design="solo", blocks=3)
    run_until_trial(chosen, path, SimulatedHosts(names=["a"]), "jemalloc")
    simulated_hosts.run(chosen, SimulatedHosts(names=["b"]), path)
    check_complete(path, chosen, 3)
    [(_, variant, text)] = query(path, LOST)
    assert variant == "jemalloc"
    assert "has not come back" in text


def test_a_host_that_comes_back_late_is_judged_then(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    path, chosen = tmp_path / "r", experiment(design="solo", blocks=3)
    run_until_trial(chosen, path, SimulatedHosts(names=["a"]), "jemalloc")
    hosts = SimulatedHosts(names=["b", "a"], boot=2)
    list_hosts = hosts.list_hosts

    def list_hosts_as_they_come() -> list[Host]:
        return [host for host in list_hosts() if host.name == "b" or hosts.now > 300]

    hosts.list_hosts = list_hosts_as_they_come  # type: ignore[method-assign]
    simulated_hosts.run(chosen, hosts, path)
    check_complete(path, chosen, 3)
    [(_, variant, text)] = query(path, LOST)
    assert variant == "jemalloc"
    assert "started anew" in text


def test_what_the_driver_ends_itself_is_no_fault(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    """It gives up because of one host, while another is in a trial."""
    path, chosen = tmp_path / "r", experiment(design="solo", blocks=3)
    hosts = SimulatedHosts(names=["a", "b"])
    poll = hosts.poll

    def poll_until_it_fails(seconds: float) -> list[Any]:
        if query(path, "SELECT count(*) FROM trial_under_way") == [(2,)]:
            raise Failure("enough")
        return poll(seconds)

    hosts.poll = poll_until_it_fails  # type: ignore[method-assign]
    with pytest.raises(Failure, match="enough"):
        simulated_hosts.run(chosen, hosts, path)
    assert query(path, UNDER_WAY) == []
    simulated_hosts.run(chosen, SimulatedHosts(names=["a", "b"], boot=2), path)
    check_complete(path, chosen, 3)
    assert query(path, LOST) == []


def test_a_host_that_is_lost_while_the_driver_lives_is_a_fault_once(
    experiment: MakeExperiment, tmp_path: Path
) -> None:
    path, chosen = tmp_path / "r", experiment(design="solo", blocks=3)
    hosts = SimulatedHosts(names=["a", "b"])
    poll, lost = hosts.poll, HostLost(host="a", reason="it is on fire", is_alive=False)

    def poll_and_lose(seconds: float) -> list[Any]:
        if "a" in hosts.running and query(path, "SELECT 1 FROM trial_under_way WHERE host = 'a'"):
            hosts.alive.discard("a")
            return [lost]
        return poll(seconds)

    hosts.poll = poll_and_lose  # type: ignore[method-assign]
    simulated_hosts.run(chosen, hosts, path)
    check_complete(path, chosen, 3)
    assert len(query(path, LOST)) == 1
    assert query(path, UNDER_WAY) == []
