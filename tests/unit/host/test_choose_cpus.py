"""The CPUs of servers and of their clients, on machines of many kinds that are trees of files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from example_cpu_trees import (
    BIG_LITTLE,
    EMULATED,
    HYBRID,
    MACHINES,
    SNC_4,
    TWO_SOCKETS,
    TreeCore,
    list_cpus,
    make_cores,
    write_tree,
)
from hypothesis import given
from hypothesis import strategies as st

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.model import Cpu
from dballoc.ground.errors import UsageError
from dballoc.host.resources import choose_cpus, cores, cpu_halves
from dballoc.host.resources.choose_cpus import place_clients, place_server
from dballoc.host.resources.cores import Core, list_cores, rank_speeds

Machine = Callable[..., None]


@pytest.fixture(scope="session")
def large_trees(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The trees of the machines with many CPUs, by their lists' identity: each is written once."""
    home = tmp_path_factory.mktemp("trees")
    return {id(of): write_tree(home / name, of) for name, of in MACHINES.items()}


@pytest.fixture
def machine(
    tmp_path: Path, large_trees: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """Make this machine another one, of which ``allowed`` CPUs may be used; default: all online."""

    def become(
        of: Sequence[TreeCore], *, allowed: str | None = None, offline: frozenset[int] = frozenset()
    ) -> None:
        tree = large_trees.get(id(of)) or write_tree(tmp_path / "cpu", of, offline)
        monkeypatch.setattr(cores, "SYSTEM", tree)
        usable = parse_cpus(allowed) if allowed else list_cpus(of) - offline
        for module in (choose_cpus, cpu_halves):
            monkeypatch.setattr(module, "list_available_cpus", lambda: usable)

    return become


def choose(count: int, client: str | None = "apart") -> tuple[str, str]:
    """The CPUs of a server with so many, and of its clients."""
    sides = choose_cpus.choose_cpus(Cpu(count=count, client=client))
    assert sides.server
    assert sides.clients
    assert bool(sides.together) == (client == "apart" and sides.server == sides.clients)
    return format_cpus(sides.server), format_cpus(sides.clients)


@pytest.mark.parametrize(
    ("of", "count", "server", "clients"),
    [
        # Whole cores (a CPU and the one 128 on), all on the first node.
        (TWO_SOCKETS, 4, "0-1,128-129", "2-3,130-131"),
        (TWO_SOCKETS, 64, "0-31,128-159", "32-63,160-191"),
        # The server has its whole node: the clients are on the other one.
        (TWO_SOCKETS, 128, "0-63,128-191", "64-127,192-255"),
        # More than a node: all of one, the rest of the other.
        (TWO_SOCKETS, 160, "0-79,128-207", "0-79,128-207"),
        (TWO_SOCKETS, 256, "0-255", "0-255"),
        # A node has 28 CPUs: with 16 there are 12 left, and four of the same socket's next node.
        (SNC_4, 14, "0-6,112-118", "7-13,119-125"),
        (SNC_4, 16, "0-7,112-119", "8-15,120-127"),
        # Of 28 none is left.
        (SNC_4, 28, "0-13,112-125", "14-27,126-139"),
        # More than a node: nodes of one socket.
        (SNC_4, 56, "0-27,112-139", "28-55,140-167"),
        # Performance cores alone, also those that boost higher; the others stay for the clients.
        (HYBRID, 4, "0-3", "4-7"),
        (HYBRID, 16, "0-15", "16-31"),
        (HYBRID, 12, "0-11", "12-23"),
        # All of them, and efficiency cores.
        (HYBRID, 20, "0-19", "0-19"),
        (BIG_LITTLE, 2, "4-5", "6-7"),
        (BIG_LITTLE, 4, "4-7", "0-3"),
        (EMULATED, 4, "0-3", "4-7"),
        (EMULATED, 8, "0-7", "8-15"),
        (EMULATED, 16, "0-15", "0-15"),
        # Half of a core is the server's: its other half is nobody's.
        (EMULATED, 3, "0-2", "4-7"),
        (make_cores(cores=2), 1, "0", "1"),
        (make_cores(cores=2), 2, "0-1", "0-1"),
        (make_cores(cores=8), 4, "0-3", "4-7"),
        (make_cores(cores=7), 4, "0-3", "0-3"),
    ],
)
def test_a_server_has_like_cores_of_one_node_and_its_clients_others(
    machine: Machine, of: Sequence[TreeCore], count: int, server: str, clients: str
) -> None:
    machine(of)
    assert choose(count) == (server, clients)
    assert choose(count, None) == (server, server)


def test_a_server_leaves_a_node_that_is_too_small(machine: Machine) -> None:
    small = [TreeCore(cpus=(n,), node=0) for n in range(3)]
    large = [TreeCore(cpus=(n,), node=1, package=1) for n in range(3, 11)]
    machine([*small, *large])
    assert choose(4) == ("3-6", "7-10")
    assert choose(2) == ("3-4", "5-6")


def test_offline_cpus_are_nobodys(machine: Machine) -> None:
    """CPU 1 and its sibling 5 are off, and CPU 4, whose sibling is a core of one thread then."""
    machine(make_cores(cores=4, threads=2), offline=frozenset({1, 4, 5}))
    assert choose(2) == ("2,6", "3,7")
    assert choose(4) == ("2-3,6-7", "2-3,6-7")
    assert choose(3) == ("2-3,6", "2-3,6")  # one CPU is left, three are needed


def test_a_container_of_odd_cpus(machine: Machine) -> None:
    """Of each core it has one thread, of the last one both."""
    machine(make_cores(sockets=2, cores=8, threads=2), allowed="1,3,5,7,9,11,13,15,31")
    assert list_cores(parse_cpus("1,9,15,31")) == [
        Core(cpus=frozenset({1})),
        Core(cpus=frozenset({9}), node=1, package=1),
        Core(cpus=frozenset({15, 31}), node=1, package=1),
    ]
    assert choose(2) == ("15,31", "9,11")
    assert choose(4) == ("1,3,5,7", "9,11,15,31")
    assert cpu_halves.choose_halves(Cpu()).halves == ({1, 3}, {5, 7})


@pytest.mark.parametrize("name", ["cpu0", "cpu0/topology", "node"])
def test_a_host_that_hides_its_topology(
    name: str, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(make_cores(cores=4))
    monkeypatch.setattr(cores, "SYSTEM", tmp_path / name)
    assert choose(2) == ("0-1", "2-3")
    assert cpu_halves.choose_halves(Cpu()).halves == ({0, 1}, {2, 3})


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"-1",
        b"3-1",
        b"0-99999",
        b"0-99999," * 500_000,
        b"\xff\xfe\0",
        "\u0663".encode(),  # a digit, but not of the kernel's
        b"9" * 5000,
    ],
)
def test_hostile_files_of_cpus(text: bytes, machine: Machine, tmp_path: Path) -> None:
    """Whatever they hold, each CPU is of one core, and as many are chosen as were asked for."""
    machine(make_cores(cores=4, speed=10))
    for cpu in range(4):
        home = tmp_path / f"cpu/cpu{cpu}"
        for name in ("thread_siblings_list", "physical_package_id"):
            (home / "topology" / name).write_bytes(text)
        (home / "cpufreq/cpuinfo_max_freq").write_bytes(text)
        (home / "node99999999999999999999").touch()
        (home / "node-1").touch()
    every = list_cores(frozenset(range(4)))
    assert sorted(cpu for core in every for cpu in core.cpus) == [0, 1, 2, 3]
    assert len(place_server(every, 3)) == 3


def test_siblings_that_contradict_each_other(machine: Machine, tmp_path: Path) -> None:
    machine(make_cores(cores=4))
    for cpu, text in enumerate(["0-2", "1,3", "0,3", "0-3"]):
        (tmp_path / f"cpu/cpu{cpu}/topology/thread_siblings_list").write_text(text)
    assert [sorted(c.cpus) for c in list_cores(frozenset(range(4)))] == [[0, 1, 2], [3]]


def test_files_that_are_none(machine: Machine, tmp_path: Path) -> None:
    """A FIFO, which would be waited for without end, and links to nowhere and in a circle."""
    machine(make_cores(cores=4, speed=10))
    for cpu in range(4):
        topology = tmp_path / f"cpu/cpu{cpu}/topology"
        for name in ("thread_siblings_list", "physical_package_id"):
            (topology / name).unlink()
        os.mkfifo(topology / "thread_siblings_list")
        (topology / "physical_package_id").symlink_to("physical_package_id")
    assert choose(2) == ("0-1", "2-3")


def test_a_server_by_its_list_and_clients_apart(machine: Machine) -> None:
    machine(EMULATED)
    sides = choose_cpus.choose_cpus(Cpu(server="8-11", client="apart"))
    assert (sides.server, sides.clients) == (parse_cpus("8-11"), parse_cpus("12-15"))
    sides = choose_cpus.choose_cpus(Cpu(client="apart"))
    assert sides.clients == sides.server == frozenset(range(16))
    assert sides.together == (
        "the server has 16 CPUs, its clients need as many on other cores, and those have 0"
    )


def test_halves_with_clients_apart(machine: Machine) -> None:
    machine(EMULATED)
    apart = cpu_halves.choose_halves(Cpu(count=4, client="apart"))
    assert apart.halves == ({0, 1}, {2, 3})
    assert apart.client_halves == ({4, 5}, {6, 7})
    assert apart.clients_apart
    assert not apart.together
    beside = cpu_halves.choose_halves(Cpu(count=4))
    assert beside.halves == beside.client_halves == ({0, 1}, {2, 3})
    assert not beside.clients_apart
    crowded = cpu_halves.choose_halves(Cpu(count=16, client="apart"))
    assert crowded.halves == crowded.client_halves == ({0, 1, 2, 3}, {4, 5, 6, 7})
    assert crowded.together.startswith("the server has 16 CPUs")


def test_clients_are_beside_servers_that_cannot_be_halved_without_them(machine: Machine) -> None:
    machine(make_cores(cores=2))
    cpus = cpu_halves.choose_halves(Cpu(count=1, client="apart"))
    assert cpus.halves == cpus.client_halves == ({0}, {1})
    assert (
        cpus.together == "CPUs 0 of the servers and 1 of their clients are no two like halves each"
    )


@pytest.mark.parametrize("name", MACHINES)
def test_halves_of_large_machines(name: str, machine: Machine) -> None:
    machine(MACHINES[name])
    first, second = cpu_halves.choose_halves(Cpu()).halves
    every = {core for core in MACHINES[name] if set(core.cpus) & (first | second)}
    assert all(set(c.cpus) <= first or set(c.cpus) <= second for c in every)
    assert len({core.node for core in every}) == 1
    assert len(first) == len(second)


def test_too_many_cpus(machine: Machine) -> None:
    machine(EMULATED, allowed="0,2")
    with pytest.raises(UsageError, match=r"cpu.count: 3 CPUs requested, 2 available \(0,2\)"):
        choose(3)


@pytest.mark.parametrize(
    ("speeds", "ranks"),
    [
        ([0, 0], [0, 0]),
        ([5500, 5200, 3900], [0, 0, 1]),
        ([5200, 3900, 2500], [0, 1, 2]),
        # No chain of small steps makes a slow core one of the fast ones.
        ([1000, 900, 800, 700], [0, 0, 1, 1]),
        ([1024, 0], [0, 1]),
    ],
)
def test_kinds_of_cores(speeds: list[int], ranks: list[int]) -> None:
    of = [Core(cpus=frozenset({n}), speed=speed) for n, speed in enumerate(speeds)]
    assert [rank_speeds(of)[core.speed] for core in of] == ranks


_CORES = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(0, 3), st.integers(0, 1), st.sampled_from([0, 100, 104, 60])
    ),
    min_size=1,
    max_size=24,
)


@given(_CORES, st.data())
def test_laws_of_the_choice(shapes: list[tuple[int, int, int, int]], data: st.DataObject) -> None:
    """As many CPUs as asked; one node and kind where one has as many; at most one core in part;
    clients on whole cores of their own, on the server's nodes where enough are left there.
    """
    every: list[Core] = []
    for threads, node, package, speed in shapes:
        lowest = sum(len(core.cpus) for core in every)
        cpus = frozenset(range(lowest, lowest + threads))
        every.append(Core(cpus=cpus, node=node, package=package, speed=speed))
    count = data.draw(st.integers(1, sum(len(core.cpus) for core in every)))
    server = place_server(every, count)
    assert len(server) == count
    beside = [core for core in every if core.cpus & server]
    assert sum(not core.cpus <= server for core in beside) <= 1
    ranks = rank_speeds(every)
    groups: dict[tuple[int, int, int], int] = {}
    for core in every:
        key = core.node, ranks[core.speed], len(core.cpus)
        groups[key] = groups.get(key, 0) + len(core.cpus)
    used = {(core.node, ranks[core.speed], len(core.cpus)) for core in beside}
    if max(groups.values()) >= count:
        assert len(used) == 1
        fitting = [kind for (_, kind, _), size in groups.items() if size >= count]
        assert next(iter(used))[1] == min(fitting)
    clients = place_clients(every, server)
    free = [core for core in every if not core.cpus & server]
    if clients is None:
        assert sum(len(core.cpus) for core in free) < count
        return
    assert not clients & server
    theirs = [core for core in every if core.cpus & clients]
    assert all(core.cpus <= clients and core in free for core in theirs)
    assert count <= len(clients) <= count + 2
    nodes = {core.node for core in beside}
    if sum(len(core.cpus) for core in free if core.node in nodes) >= count:
        assert {core.node for core in theirs} <= nodes
