"""Group campaigns by the machine that they ran on. Pure."""

from collections import Counter
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.hosts.split_by_host import find_own_name
from dballoc.analysis.measures import Metric

# What makes a kind of host.
_KIND = ("cpu", "cpus", "memory")
# What tells machines apart, beside their names.
_MACHINE = ("cpu", "cpus", "machine")


@dataclass(frozen=True, kw_only=True, eq=False)
class HostResults:
    """A campaign, or a host's part of one, and its directory. ``obstacles``: for each metric of the
    pool's first campaign, why this one cannot be pooled in it; nothing for one in which it can.
    """

    directory: Path
    campaign: Campaign
    obstacles: Mapping[Metric, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Host:
    """A host and its results, of one campaign or more. ``name`` is unique in a pool; ``kind``: its
    CPU, how many of them, and its memory.
    """

    name: str
    kind: str
    results: tuple[HostResults, ...]

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories of its results."""
        return tuple(results.directory for results in self.results)

    @property
    def campaigns(self) -> tuple[Campaign, ...]:
        """Its campaigns, or its parts of them."""
        return tuple(results.campaign for results in self.results)

    @property
    def blocks(self) -> int:
        """How many blocks of all designs it has finished."""
        return sum(c.blocks(design) for c in self.campaigns for design in c.designs)


def group_by_host(results: Sequence[HostResults], *, each_is_a_host: bool) -> tuple[Host, ...]:
    """Group results by the machine that they are of, in the order of its first ones;
    ``each_is_a_host``: as if each were of a machine of its own.
    """
    if each_is_a_host:
        groups = [[number] for number in range(len(results))]
    else:
        groups = group_by_shared_key(_list_machine_keys(results))
    hosts: dict[str, Host] = {}
    for numbers in groups:
        of_host = tuple(results[number] for number in numbers)
        environment = of_host[0].campaign.environment
        name = str(environment.get("host") or of_host[0].directory.name)
        unique_name = choose_free_name(name, hosts)
        hosts[unique_name] = Host(
            name=unique_name, kind=describe_kind(environment), results=of_host
        )
    return tuple(hosts.values())


def _list_machine_keys(results: Sequence[HostResults]) -> list[set[Hashable]]:
    """Return what tells the machine of each of the results: the boot ID of its kernel, which
    containers of one machine share, where it was recorded; and its own name with its CPUs, which
    outlast a boot. Machines of one name in one campaign are several: these go by the name with
    their address.
    """
    machines: list[tuple[Any, ...]] = [
        (find_own_name(r.campaign), *(r.campaign.environment.get(key) for key in _MACHINE))
        for r in results
    ]
    counts = Counter((r.directory, m) for r, m in zip(results, machines, strict=True))
    shared = {machine for (_, machine), number in counts.items() if number > 1}
    keys: list[set[Hashable]] = []
    for result, machine in zip(results, machines, strict=True):
        environment = result.campaign.environment
        full_name = (environment.get("host"),) if machine in shared else ()
        boot = environment.get("boot_id")
        keys.append({(*full_name, *machine), *([boot] if boot else [])})
    return keys


def group_by_shared_key(keys: Sequence[set[Hashable]]) -> list[list[int]]:
    """Return the numbers of the sets that have a key in common, directly or through others; groups
    and numbers in their order.
    """
    # A group is known by its first number.
    groups: dict[int, list[int]] = {}
    group_of: dict[Hashable, int] = {}
    for number, of_number in enumerate(keys):
        joined = {group_of[key] for key in of_number if key in group_of}
        first = min(joined, default=number)
        members = groups.setdefault(first, [])
        for other in joined - {first}:
            moved = groups.pop(other)
            members += moved
            group_of |= {key: first for member in moved for key in keys[member]}
        members.append(number)
        group_of |= dict.fromkeys(of_number, first)
    return [sorted(members) for members in groups.values()]


def choose_free_name(name: str, used: Container[str]) -> str:
    """Return the name, with the first free number behind it where it is used: ``db (2)``."""
    if name not in used:
        return name
    return next(numbered for n in count(2) if (numbered := f"{name} ({n})") not in used)


def describe_kind(environment: Mapping[str, Any]) -> str:
    """Return a host's kind: ``Xeon, 8 CPUs, 32 GiB``."""
    cpu, cpus, memory = (environment.get(key) for key in _KIND)
    parts = [str(cpu or "unknown CPU")]
    if cpus:
        parts.append(f"{cpus} CPU{'s' if cpus != 1 else ''}")
    if memory:
        parts.append(f"{round(memory / 2**30)} GiB")
    return ", ".join(parts)
