"""Choose the CPUs of a server and of its clients: whole cores that are alike, near each other.

Clients that are apart get as many CPUs as their server: for each second of a server's CPU sysbench
took 0.6 to 1.0 s with point selects (docs/evidence.md: The clients' CPU), so with much fewer the
clients would be what is full. With too few CPUs for that they stay beside the server.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.model import Cpu
from dballoc.ground.errors import UsageError
from dballoc.host.resources.cores import Core, list_cores, rank_speeds
from dballoc.host.resources.cpus import list_available_cpus


@dataclass(frozen=True, kw_only=True)
class SideCpus:
    """The CPUs of a ``server`` and of its ``clients``; None: all. ``together``: why the clients are
    beside the server though they were to be apart; empty where they are not.
    """

    server: frozenset[int] | None = None
    clients: frozenset[int] | None = None
    together: str = ""


def choose_cpus(cpu: Cpu) -> SideCpus:
    """Choose the CPUs of server and clients. Raises UsageError if a CPU of the experiment is not
    available.
    """
    available = list_available_cpus()
    if cpu.count is None:
        server = _parse_available("server", cpu.server, available)
        if not cpu.clients_apart:
            clients = _parse_available("client", cpu.client, available)
            return SideCpus(server=server, clients=clients)
    else:
        server = _place_count(cpu.count, available)
        if not cpu.clients_apart:
            return SideCpus(server=server, clients=server)
    return _add_clients(list_cores(available), server or available)


def _place_count(count: int, available: frozenset[int]) -> frozenset[int]:
    if count > len(available):
        raise UsageError(
            f"cpu.count: {count} CPUs requested, {len(available)} available "
            f"({format_cpus(available)})"
        )
    return place_server(list_cores(available), count)


def _parse_available(
    side: str, text: str | None, available: frozenset[int]
) -> frozenset[int] | None:
    if text is None:
        return None
    wanted = parse_cpus(text)
    if missing := wanted - available:
        raise UsageError(
            f"cpu.{side}: CPU {format_cpus(missing)} is not here; there are "
            f"{format_cpus(available)}"
        )
    return wanted


def _add_clients(cores: Sequence[Core], server: frozenset[int]) -> SideCpus:
    clients = place_clients(cores, server)
    if clients is not None:
        return SideCpus(server=server, clients=clients)
    others = sum(len(core.cpus) for core in cores if not core.cpus & server)
    why = (
        f"the server has {len(server)} CPUs, its clients need as many on other cores, and those "
        f"have {others}"
    )
    return SideCpus(server=server, clients=server, together=why)


def place_server(cores: Sequence[Core], count: int) -> frozenset[int]:
    """Return ``count`` CPUs of these cores, as few cores as that takes. Pure.

    All of one kind and on one NUMA node, the fastest kind first, then the node that has most of
    them, which leaves most for clients; else of one kind on the fewest nodes, those of one package
    first; else of all kinds, the fastest first. There must be as many.
    """
    ranks = rank_speeds(cores)
    by_kind: dict[tuple[int, int], list[Core]] = {}
    for core in cores:
        by_kind.setdefault((ranks[core.speed], -len(core.cpus)), []).append(core)
    kinds = [_order_by_node(alike) for _, alike in sorted(by_kind.items())]
    on_one_node = [
        on_node for alike in kinds for on_node in _split_nodes(alike) if _count(on_node) >= count
    ]
    of_one_kind = [alike for alike in kinds if _count(alike) >= count]
    everything = [core for alike in kinds for core in alike]
    return _take((*on_one_node, *of_one_kind, everything)[0], count)


def place_clients(cores: Sequence[Core], server: frozenset[int]) -> frozenset[int] | None:
    """Return whole cores without any of the server's CPUs for its clients: as many CPUs as the
    server has, of its NUMA nodes if enough are left there, else of its packages, else of all. None
    where not enough are left anywhere. Pure.
    """
    beside = [core for core in cores if core.cpus & server]
    nodes, packages = {core.node for core in beside}, {core.package for core in beside}
    speeds = {core.speed for core in beside}
    others = sorted(
        (core for core in cores if not core.cpus & server),
        key=lambda core: (
            core.node not in nodes,
            core.package not in packages,
            core.speed not in speeds,
            core.node,
            -len(core.cpus),
            min(core.cpus),
        ),
    )
    for near in (
        [core for core in others if core.node in nodes],
        [core for core in others if core.package in packages],
        others,
    ):
        if _count(near) >= len(server):
            return _take_cores(near, len(server))
    return None


def _order_by_node(alike: Iterable[Core]) -> list[Core]:
    """Return cores node by node: the node with most CPUs first, then the others of its package."""
    cores = sorted(alike, key=lambda core: min(core.cpus))
    by_node: dict[int, list[Core]] = {}
    for core in cores:
        by_node.setdefault(core.node, []).append(core)
    sizes = {node: _count(on_node) for node, on_node in by_node.items()}
    first = min(sizes, key=lambda node: (-sizes[node], node))
    package = by_node[first][0].package
    order = sorted(
        by_node,
        key=lambda node: (by_node[node][0].package != package, -sizes[node], node),
    )
    return [core for node in order for core in by_node[node]]


def _split_nodes(ordered: Iterable[Core]) -> list[list[Core]]:
    by_node: dict[int, list[Core]] = {}
    for core in ordered:
        by_node.setdefault(core.node, []).append(core)
    return list(by_node.values())


def _count(cores: Iterable[Core]) -> int:
    return sum(len(core.cpus) for core in cores)


def _take(cores: Iterable[Core], count: int) -> frozenset[int]:
    """Return the first CPUs of cores, core by core."""
    return frozenset([cpu for core in cores for cpu in sorted(core.cpus)][:count])


def _take_cores(cores: Iterable[Core], count: int) -> frozenset[int]:
    """Return the CPUs of the first cores that have so many together, or of all."""
    cpus: set[int] = set()
    for core in cores:
        if len(cpus) >= count:
            break
        cpus |= core.cpus
    return frozenset(cpus)
