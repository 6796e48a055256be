"""Split the CPUs into two halves for a duet: whole cores of the same kinds, on one NUMA node."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dballoc.experiment.cpu_list import format_cpus
from dballoc.ground.errors import UsageError
from dballoc.host.resources import cpus

if TYPE_CHECKING:
    from dballoc.experiment.model import Cpu

Halves = tuple[frozenset[int], frozenset[int]]


@dataclass(frozen=True)
class Core:
    """A core: those of its CPUs (hardware threads) that we may use, its NUMA node, and its kind
    (capacity or top frequency).
    """

    cpus: frozenset[int]
    node: int
    kind: int


def choose_halves(cpu: "Cpu") -> Halves:
    """Choose two halves of the CPUs that the experiment's [cpu] allows. Raises UsageError if there
    are no two like halves.
    """
    server, client = cpus.choose_cpus(cpu)
    allowed = (
        cpus.list_available_cpus()
        if server is None and client is None
        else (server or frozenset()) | (client or frozenset())
    )
    return split_cores(list_cores(allowed))


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
        kinds[core.kind, len(core.cpus)].append(core)
    first: set[int] = set()
    second: set[int] = set()
    for alike in kinds.values():
        half = len(alike) // 2
        first |= {c for core in alike[:half] for c in core.cpus}
        second |= {c for core in alike[half : 2 * half] for c in core.cpus}
    return (frozenset(first), frozenset(second)) if first else None


def list_cores(allowed: frozenset[int]) -> list[Core]:
    """List the machine's cores with their allowed CPUs (sysfs: topology, node, cpu_capacity or
    cpuinfo_max_freq).
    """
    by_cpus: dict[frozenset[int], Core] = {}
    for cpu in sorted(allowed):
        core_cpus = cpus.list_siblings(cpu) & allowed
        by_cpus.setdefault(core_cpus, Core(core_cpus, _read_node(cpu), _read_kind(cpu)))
    return list(by_cpus.values())


def _read_node(cpu: int) -> int:
    links = (cpus.SYSTEM / f"cpu{cpu}").glob("node[0-9]*")
    return next((int(link.name.removeprefix("node")) for link in links), 0)


def _read_kind(cpu: int) -> int:
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            return int(Path(cpus.SYSTEM / f"cpu{cpu}" / name).read_text())
        except (OSError, ValueError):
            continue
    return 0
