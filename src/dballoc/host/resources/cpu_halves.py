"""Split the CPUs into two halves for a duet: whole cores of the same kinds, on one NUMA node."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dballoc.experiment.cpu_list import format_cpus
from dballoc.ground.errors import UsageError
from dballoc.host.resources import choose_cpus
from dballoc.host.resources.cores import Core, list_cores
from dballoc.host.resources.cpus import list_available_cpus

if TYPE_CHECKING:
    from dballoc.experiment.model import Cpu

Halves = tuple[frozenset[int], frozenset[int]]


@dataclass(frozen=True, kw_only=True)
class DuetCpus:
    """Two halves of the servers' CPUs, and of their clients': the same ones, unless the clients
    have CPUs of their own. ``together``: why they have none though they were to; empty where not.
    """

    halves: Halves
    client_halves: Halves
    together: str = ""

    @property
    def servers(self) -> frozenset[int]:
        """The CPUs of both servers."""
        return self.halves[0] | self.halves[1]

    @property
    def clients(self) -> frozenset[int]:
        """The CPUs of both servers' clients."""
        return self.client_halves[0] | self.client_halves[1]

    @property
    def clients_apart(self) -> bool:
        """Whether the clients have CPUs of their own."""
        return self.client_halves != self.halves


def choose_halves(cpu: "Cpu") -> DuetCpus:
    """Choose two halves of the CPUs that the experiment's [cpu] allows. Raises UsageError if there
    are no two like halves.
    """
    sides = choose_cpus.choose_cpus(cpu)
    allowed = (
        list_available_cpus()
        if sides.server is None and sides.clients is None
        else (sides.server or frozenset()) | (sides.clients or frozenset())
    )
    together = sides.together
    if cpu.clients_apart and sides.server and sides.clients and not together:
        try:
            return DuetCpus(
                halves=split_cores(list_cores(sides.server)),
                client_halves=split_cores(list_cores(sides.clients)),
            )
        except UsageError:
            together = (
                f"CPUs {format_cpus(sides.server)} of the servers and "
                f"{format_cpus(sides.clients)} of their clients are no two like halves each"
            )
    halves = split_cores(list_cores(allowed))
    return DuetCpus(halves=halves, client_halves=halves, together=together)


def split_cores(cores: Iterable[Core]) -> Halves:
    """Split cores into two halves with the same number of each kind, on the node that has most.
    Pure.

    On one node, because with two each server's memory would be on the other node after a swap.
    Raises UsageError with the reason if there are no such halves.
    """
    by_node: dict[int, list[Core]] = defaultdict(list)
    for core in cores:
        by_node[core.node].append(core)
    splits = [_split_node(on_node) for _, on_node in sorted(by_node.items())]
    best = max(splits, key=lambda split: len(split[0]) if split else 0, default=None)
    if best is None:
        everything = [c for on_node in by_node.values() for c in on_node]
        every_cpu = format_cpus(frozenset().union(*(c.cpus for c in everything)))
        if len(everything) < 2:
            raise UsageError(
                f"a duet needs two cores, there is one (CPU {every_cpu}); use --design solo"
            )
        raise UsageError(
            f"a duet needs two halves of like cores; no two cores of CPUs {every_cpu} are alike; "
            "use --design solo"
        )
    return best


def _split_node(on_node: list[Core]) -> Halves | None:
    """Split the cores of one node, kind by kind; a core without a partner is left out."""
    kinds: dict[tuple[int, int], list[Core]] = defaultdict(list)
    for core in sorted(on_node, key=lambda c: min(c.cpus)):
        kinds[core.speed, len(core.cpus)].append(core)
    first: set[int] = set()
    second: set[int] = set()
    for alike in kinds.values():
        half = len(alike) // 2
        first |= {c for core in alike[:half] for c in core.cpus}
        second |= {c for core in alike[half : 2 * half] for c in core.cpus}
    return (frozenset(first), frozenset(second)) if first else None
