"""What thousands of clients need is there before anything starts, or refused in one line."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dballoc.campaign.preparation import prepare, prepare_variant
from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.preparation.prepare_turns import PreparedTurns
from dballoc.experiment.model import Experiment
from dballoc.ground.errors import UsageError
from dballoc.host.resources.thread_limits import ThreadLimit
from dballoc.host.unprivileged.server_user import ServerUser
from dballoc.load import workload
from dballoc.load.sysbench_command import Sysbench
from dballoc.servers.private import command_line

MakeExperiment = Callable[..., Experiment]
OPTIONS = {"max-connections": "4116"}


def prepared(experiment: Experiment, servers: int = 0) -> PreparedCampaign:
    """A campaign of servers, of which so many take turns at once."""
    nothing: Any = None
    variant: Any = SimpleNamespace(pool_bytes=0)
    turns = PreparedTurns(in_pairs=False, servers_at_once=servers, host_mode=None)
    return PreparedCampaign(
        experiment=experiment,
        variants={v.name: variant for v in experiment.variant},
        user=ServerUser(None),
        sysbench=Sysbench(Path("/s"), "1.0", Path("/s"), workload.settle(experiment)),
        contents=nothing,
        turns=turns if servers else None,
    )


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """``host(threads, mappings)``: a host with so many to spare."""

    def limit(threads: int, mappings: int) -> None:
        spare = ThreadLimit(name="kernel.pid_max", most=threads + 700, used=700, remedy="raise it")
        monkeypatch.setattr(prepare, "list_thread_limits", lambda _: [spare])
        monkeypatch.setattr(prepare, "read_most_mappings", lambda: mappings)
        memory = SimpleNamespace(available=2**50)
        monkeypatch.setattr(prepare.psutil, "virtual_memory", lambda: memory)

    return limit


def test_threads_of_servers_and_clients_are_counted(experiment: MakeExperiment) -> None:
    solo = experiment(threads=[64, 4096], design="solo")
    assert prepared(solo).threads_needed == 2 * 4096 + 150
    turns = experiment(threads=[64, 4096], design="turns")
    assert prepared(turns, servers=4).threads_needed == 4 * (2 * 4096 + 150)
    replica = experiment(threads=[8], design="solo", workloads=["replica"])
    assert prepared(replica).threads_needed == 2 * (2 * 8 + 150)


def test_too_few_threads_are_refused_in_one_line(
    experiment: MakeExperiment, host: Callable[[int, int], None]
) -> None:
    setting = prepared(experiment(threads=[4096], design="turns"), servers=4)
    host(33_368, 65_530)
    prepare._check_memory_and_threads(setting)
    host(33_367, 65_530)
    with pytest.raises(UsageError) as caught:
        prepare._check_memory_and_threads(setting)
    assert str(caught.value) == (
        "threads: about 33,368 threads of servers and 4,096 clients each are needed, "
        "kernel.pid_max of 34,067 leaves 33,367; raise it, or lower the clients, or use --design "
        "solo"
    )


def test_turns_are_in_pairs_where_threads_allow_no_more(
    experiment: MakeExperiment, host: Callable[[int, int], None]
) -> None:
    wanted = prepared(experiment(threads=[4096], design="turns"))
    host(4 * 8342, 65_530)
    turns = prepare._add_turns(wanted).turns
    assert turns is not None
    assert (turns.in_pairs, turns.servers_at_once) == (False, 4)
    host(3 * 8342, 65_530)
    turns = prepare._add_turns(wanted).turns
    assert turns is not None
    assert (turns.in_pairs, turns.servers_at_once) == (True, 2)
    host(8342, 65_530)
    with pytest.raises(UsageError, match="16,684 threads of servers"):
        prepare._add_turns(wanted)
    three = replace(wanted, experiment=experiment(threads=[4096]))
    without = prepare._add_turns(three)
    assert without.turns is None
    assert "16,684 threads of servers" in (without.no_turns or "")


def test_too_few_mappings_are_refused_in_one_line(
    experiment: MakeExperiment, host: Callable[[int, int], None]
) -> None:
    setting = prepared(experiment(threads=[20_000], design="solo"))
    host(10**6, 65_530)
    with pytest.raises(UsageError) as caught:
        prepare._check_memory_and_threads(setting)
    assert str(caught.value) == (
        "threads: about 81,000 mappings of memory are needed for 20,000 clients, vm.max_map_count "
        "is 65,530; raise it (sysctl -w vm.max_map_count=81000), or lower the clients"
    )


@pytest.mark.parametrize("most", [9_000, 20_000, 65_536, 2**20])
def test_open_files_are_raised_or_refused(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 4,096 clients on 8 tables: where files are few, fewer tables are kept open, one for
    each client at the least.
    """
    limits = prepare_variant.open_file_limit
    monkeypatch.setattr(limits, "read_most_files", lambda: most)
    monkeypatch.setattr(limits, "read_hard_limit", lambda: most)
    if most == 9_000:
        with pytest.raises(UsageError) as caught:
            prepare_variant._limit_open_files("variant 'x'", 4096, 8, OPTIONS)
        assert str(caught.value) == (
            "variant 'x': its server needs 12,848 open files for 4,096 clients, and the hard limit "
            "is 9,000; raise it (ulimit -Hn 12848, limits.conf), or lower the clients"
        )
        return
    files = prepare_variant._limit_open_files("variant 'x'", 4096, 8, OPTIONS)
    kept = int(command_line.capacity(4096, 0, 8, most)["table-open-cache"])
    assert 4116 <= kept <= 8 * 4116
    assert 4116 + 2 * kept < files <= most


def test_limits_of_a_server_are_enough_for_4096_clients() -> None:
    limits = command_line.capacity(4096, 4096 * 82, 8)
    assert int(limits["max-connections"]) >= 4096 + 2
    assert int(limits["back-log"]) >= 4096
    assert int(limits["max-prepared-stmt-count"]) > 4096 * 82
