"""Decide which campaigns of several hosts are one question: what of them is pooled, what is not and
why, and what differs from host to host. Pure.

The first campaign says what the question is. The others must have had the same load on the same
variants; hosts, and the third number of a server's or any number of an allocator's version, may
differ, for a verdict over hosts is about such hosts.
"""

import re
from collections import Counter
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Cpu
from dballoc.ground.errors import UsageError
from dballoc.ground.numbers import listing
from dballoc.questions.compare.baseline_comparison import list_metrics
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.comparability import (
    MACHINE,
    STATE,
    Comparability,
    describe_variant,
    format_difference,
    format_options,
    pair_campaigns,
)
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.split_by_host import find_own_name
from dballoc.store.facts import Environment

# What makes a kind of host.
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
class PooledHost:
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
        return sum(c.blocks(design) for c in self.campaigns for design in c.facts.designs)


def group_by_host(
    results: Sequence[HostResults], *, each_is_a_host: bool
) -> tuple[PooledHost, ...]:
    """Group results by the machine that they are of, in the order of its first ones;
    ``each_is_a_host``: as if each were of a machine of its own.
    """
    if each_is_a_host:
        groups = [[number] for number in range(len(results))]
    else:
        groups = group_by_shared_key(_list_machine_keys(results))
    hosts: dict[str, PooledHost] = {}
    for numbers in groups:
        of_host = tuple(results[number] for number in numbers)
        environment = of_host[0].campaign.environment
        name = str(environment.host or of_host[0].directory.name)
        unique_name = choose_free_name(name, hosts)
        hosts[unique_name] = PooledHost(
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
        (find_own_name(r.campaign), *(getattr(r.campaign.environment, key) for key in _MACHINE))
        for r in results
    ]
    counts = Counter((r.directory, m) for r, m in zip(results, machines, strict=True))
    shared = {machine for (_, machine), number in counts.items() if number > 1}
    keys: list[set[Hashable]] = []
    for result, machine in zip(results, machines, strict=True):
        environment = result.campaign.environment
        full_name = (environment.host,) if machine in shared else ()
        boot = environment.boot_id
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


def describe_kind(environment: Environment) -> str:
    """Return a host's kind: ``Xeon, 8 CPUs, 32 GiB``."""
    cpu, cpus, memory = environment.cpu, environment.cpus, environment.memory
    parts = [str(cpu or "unknown CPU")]
    if cpus:
        parts.append(f"{cpus} CPU{'s' if cpus != 1 else ''}")
    if memory:
        parts.append(f"{round(memory / 2**30)} GiB")
    return ", ".join(parts)


# A fact of every variant; the name of one follows.
ALLOCATOR_OF = "allocator of "


def list_host_differences(
    hosts: Sequence[PooledHost], variants: Sequence[str]
) -> tuple[tuple[str, dict[str, str]], ...]:
    """Return (what, a host's value by its name) for all that is not the same on all hosts."""
    by_host = {host.name: _describe_host(host, variants) for host in hosts}
    keys = dict.fromkeys(key for facts in by_host.values() for key in facts)
    rows = [
        (key, {name: facts.get(key, "unknown") for name, facts in by_host.items()}) for key in keys
    ]
    return tuple((key, values) for key, values in rows if len(set(values.values())) > 1)


def list_alike_hosts(hosts: Sequence[PooledHost]) -> tuple[tuple[str, ...], ...]:
    """Return the names of hosts that may be one machine: those that differ in nothing but their
    name, where not all of them have recorded the boot ID, which would tell.
    """
    alike: dict[str, list[PooledHost]] = {}
    for host in hosts:
        environment = replace(host.campaigns[0].environment, host=None, boot_id=None)
        alike.setdefault(repr(environment), []).append(host)
    return tuple(
        tuple(host.name for host in group)
        for group in alike.values()
        if len(group) > 1 and not all(host.campaigns[0].environment.boot_id for host in group)
    )


def _describe_host(host: PooledHost, variants: Sequence[str]) -> dict[str, str]:
    """Return what may differ from host to host; of its campaigns, all their values."""
    values: dict[str, list[str]] = {}
    for campaign in host.campaigns:
        for key, value in _describe_campaign(campaign, variants).items():
            values.setdefault(key, []).append(value)
    return {key: " or ".join(dict.fromkeys(of_key)) for key, of_key in values.items()}


def _describe_campaign(campaign: Campaign, variants: Sequence[str]) -> dict[str, str]:
    """Return the machine, its state, and exact versions."""
    facts = {
        key.replace("_", " "): str(value)
        for key in (*MACHINE, *STATE)
        if key != "memory" and (value := getattr(campaign.environment, key)) is not None
    }
    if memory := campaign.environment.memory:
        facts["memory"] = f"{round(memory / 2**30)} GiB"
    if sysbench := campaign.facts.sysbench:
        facts["sysbench"] = sysbench
    if plan := campaign.facts.duet.plan:
        facts["slices of the duet"] = f"{plan.slice:g} s, {plan.discard:g} s discarded"
    for name in variants:
        facts |= _describe_variant_on_host(campaign, name)
    return facts


def _describe_variant_on_host(campaign: Campaign, name: str) -> dict[str, str]:
    settings = describe_variant(campaign, name)
    row = campaign.variant.row(by_predicate=pl.col("name") == name, named=True)
    return {
        f"server of {name}": f"{row['server']} ({row['server_version']})",
        f"{ALLOCATOR_OF}{name}": settings["allocator"],
        f"preloaded for {name}": settings["preloaded"] or "nothing",
        f"CPUs of {name}": settings["CPUs"] or "all",
    }


# For each metric of the first campaign, why another cannot be pooled in it.
_Obstacles = Mapping[Metric, tuple[str, ...]]


@dataclass(frozen=True)
class Exclusion:
    """A part of a directory's results that is not pooled, and why."""

    part: str
    directory: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.part} of {self.directory}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class HostPool:
    """Hosts whose campaigns are one question. ``variants``: those of all campaigns, the baseline
    first; ``left_out``: what is not pooled; ``differences``: (what, a host's value by its name) for
    all that differs; ``alike``: the names of hosts that may be one machine.
    """

    hosts: tuple[PooledHost, ...]
    variants: tuple[str, ...]
    left_out: tuple[Exclusion, ...]
    differences: tuple[tuple[str, dict[str, str]], ...]
    alike: tuple[tuple[str, ...], ...]

    @property
    def first(self) -> Campaign:
        """The campaign that says what the question is."""
        return self.hosts[0].campaigns[0]

    @property
    def baseline(self) -> str:
        """The baseline of all campaigns."""
        return self.first.experiment.baseline


def pool_hosts(
    directories: Sequence[Path], campaigns: Sequence[Campaign], *, each_is_a_host: bool = False
) -> HostPool:
    """Pool campaigns. Those of the same machine are one host, unless ``each_is_a_host``.

    Raises UsageError for a campaign that is another question, that is there twice, or that has no
    block.
    """
    for directory, campaign in zip(directories, campaigns, strict=True):
        if not any(campaign.blocks(design) for design in campaign.facts.designs):
            raise UsageError(f"{directory}: no block is finished yet; run dballoc bench first")
        if len(campaign.experiment.split_by_cpus()) > 1:
            raise UsageError(
                f"{directory}: has several numbers of CPUs, each with a baseline of its own; "
                "combine takes campaigns with one: dballoc bench --cpus N"
            )
    _refuse_copies(directories, campaigns)
    # What the parts of a campaign on several hosts have in common, any of them tells.
    by_directory = dict(zip(directories, campaigns, strict=True))
    obstacles = {
        directory: {} if directory == directories[0] else find_obstacles(campaigns[0], campaign)
        for directory, campaign in by_directory.items()
    }
    _refuse_other_questions(by_directory, obstacles)
    results = [
        HostResults(directory=directory, campaign=campaign, obstacles=obstacles[directory])
        for directory, campaign in zip(directories, campaigns, strict=True)
    ]
    hosts = group_by_host(results, each_is_a_host=each_is_a_host)
    kept, left_out = _select_variants(by_directory)
    return HostPool(
        hosts=hosts,
        variants=kept,
        left_out=(*left_out, *_exclude_metrics(by_directory, obstacles)),
        differences=list_host_differences(hosts, kept),
        alike=() if each_is_a_host else list_alike_hosts(hosts),
    )


def _refuse_copies(directories: Sequence[Path], campaigns: Sequence[Campaign]) -> None:
    """Raise UsageError for a campaign that is given twice, itself or a copy."""
    directory_of: dict[tuple[Any, ...], Path] = {}
    for directory, campaign in zip(directories, campaigns, strict=True):
        facts = campaign.facts
        campaign_id = facts.identity, facts.started, campaign.environment.host
        if campaign_id in directory_of:
            raise UsageError(
                f"{directory} and {directory_of[campaign_id]} are the same campaign; give it once"
            )
        directory_of[campaign_id] = directory


def _refuse_other_questions(
    campaigns: Mapping[Path, Campaign], obstacles: Mapping[Path, _Obstacles]
) -> None:
    """Raise UsageError for campaigns without a figure that can be pooled with the first; where that
    are all others, the first is the odd one.
    """
    (first_directory, first), *others = campaigns.items()
    reasons = {
        directory: _list_reasons(first, campaign, obstacles[directory])
        for directory, campaign in others
    }
    refused = [directory for directory in reasons if reasons[directory]]
    if not refused:
        return
    text = f"{refused[0]} cannot be pooled with {first_directory}: {'; '.join(reasons[refused[0]])}"
    if len(refused) == len(others) > 1:
        remedy = f"nor can any of the others; leave {first_directory} out, and they may be one"
    elif further := refused[1:]:
        remedy = f"nor can {listing([str(directory) for directory in further])}; leave them out"
    else:
        remedy = "leave it out"
    raise UsageError(f"{text}; {remedy}")


def _list_reasons(first: Campaign, other: Campaign, obstacles: _Obstacles) -> list[str]:
    """Return why nothing of another campaign can be pooled with the first; empty if some can."""
    a, b = first.experiment, other.experiment
    if a.baseline != b.baseline:
        return [format_difference("baseline", a.baseline, b.baseline)]
    if differences := compare_identities(first, other, a.baseline):
        return [f"the baseline is another: {'; '.join(differences)}"]
    if len(set(first.names) & set(other.names)) < 2:
        return ["no variant beside the baseline is in both"]
    if all(obstacles.values()):
        return list(dict.fromkeys(text for reasons in obstacles.values() for text in reasons))
    return []


def _select_variants(
    campaigns: Mapping[Path, Campaign],
) -> tuple[tuple[str, ...], list[Exclusion]]:
    """Return the variants that all campaigns have and that are the same in all, and where others
    are missing or differ.
    """
    first = next(iter(campaigns.values()))
    kept = []
    left_out: list[Exclusion] = []
    for name in dict.fromkeys(name for campaign in campaigns.values() for name in campaign.names):
        lacking = [directory for directory, c in campaigns.items() if name not in c.names]
        reasons = (
            {directory: ["not there"] for directory in lacking}
            if lacking
            else {d: compare_identities(first, c, name) for d, c in campaigns.items()}
        )
        differing = [
            Exclusion(f"variant {name}", directory, "; ".join(texts))
            for directory, texts in reasons.items()
            if texts
        ]
        left_out += differing
        if not differing:
            kept.append(name)
    return tuple(kept), left_out


def _exclude_metrics(
    campaigns: Mapping[Path, Campaign], obstacles: Mapping[Path, _Obstacles]
) -> list[Exclusion]:
    """Return what of each campaign is not pooled: metrics of the first in which it is not
    comparable, and metrics that the first has not.
    """
    first = next(iter(campaigns.values()))
    first_keys = {metric.key for metric in list_metrics(first)}
    exclusions = []
    for directory, campaign in campaigns.items():
        titles: dict[str, list[str]] = {}
        for metric, reasons in obstacles[directory].items():
            if reasons:
                titles.setdefault("; ".join(reasons), []).append(metric.title)
        if further := [m.title for m in list_metrics(campaign) if m.key not in first_keys]:
            reason = "not in the first results, which say what is compared"
            titles[reason] = further
        exclusions += [
            Exclusion("; ".join(of_reason), directory, reason)
            for reason, of_reason in titles.items()
        ]
    return exclusions


def find_obstacles(first: Campaign, other: Campaign) -> dict[Metric, tuple[str, ...]]:
    """Return, for each metric of the first campaign, why the other cannot be pooled in it; nothing
    for one in which it can.
    """
    pairing, measured = pair_campaigns(first, other), set(list_metrics(other))
    obstacles = {}
    for metric in list_metrics(first):
        reasons = _select_reasons(metric, first, other, pairing)
        if metric not in measured and metric.workload is not None:
            reasons = [*reasons, *_explain_missing(metric.workload, first, other)]
        obstacles[metric] = tuple(reasons)
    return obstacles


def _select_reasons(
    metric: Metric, first: Campaign, other: Campaign, pairing: Comparability
) -> list[str]:
    if metric.design == Design.DUET:
        return pairing.no_duet or _compare_duets(first, other)
    if metric.design == Design.TURNS:
        return pairing.no_turns
    if metric.workload is not None:
        return pairing.no_speed
    return pairing.no_memory if metric.question == "memory" else pairing.no_idle


def _explain_missing(workload: str, first: Campaign, other: Campaign) -> list[str]:
    """Return why a campaign lacks the first one's figure of a workload, if the loads differ."""
    a, b = first.experiment, other.experiment
    if workload not in b.workloads:
        return [f"it has no workload {workload}"]
    if max(a.threads) != max(b.threads):
        return [format_difference("clients at the highest level", max(a.threads), max(b.threads))]
    return []


def _compare_duets(first: Campaign, other: Campaign) -> list[str]:
    """Compare how both experiments wanted slices and the estimate; what was left to each host's
    pilot may differ.
    """
    a, b = (campaign.experiment.duet for campaign in (first, other))
    settings = [
        ("estimate", a.estimate, b.estimate),
        ("slice", a.slice, b.slice),
        ("discard", a.discard, b.discard),
        ("warm-up", a.warmup, b.warmup),
    ]
    return [
        format_difference(f"the duet's {name}", first_value, other_value)
        for name, first_value, other_value in settings
        if first_value != other_value
    ]


def compare_identities(first: Campaign, other: Campaign, name: str) -> list[str]:
    """Return in what a variant of two campaigns differs; empty if it is the same."""
    before, after = describe_identity(first, name), describe_identity(other, name)
    differing = [key for key in before if before[key] != after[key]]
    return [format_difference(key, before[key], after[key]) for key in differing]


def describe_identity(campaign: Campaign, name: str) -> dict[str, str]:
    """Return what a variant is, setting by setting."""
    settings, variant = describe_variant(campaign, name), campaign.experiment.find(name)
    row = campaign.variant.row(by_predicate=pl.col("name") == name, named=True)
    return {
        "allocator": row["allocator"],
        "environment": settings["environment"],
        "server": shorten_version(row["server"]),
        "C library": campaign.experiment.server_of(variant).glibc or "",
        "engine": row["engine"],
        "server options": settings["server options"],
        "connection": settings["connection"],
        "clients": campaign.facts.clients or "on the server's host",
        "numbers of CPUs": _describe_widths(campaign.experiment.cpu_of(variant)),
        "THP": settings["THP"] or "",
    }


def shorten_version(server: str) -> str:
    """Return a server without the third number of its version: ``MariaDB 10.11``."""
    return re.sub(r"(\d+\.\d+)\.\d.*", r"\1", server)


def _describe_widths(cpu: Cpu) -> str:
    """Return how many CPUs were set for server and client: hosts number theirs differently."""
    widths = {
        side: value if isinstance(value, int) else len(parse_cpus(value))
        for side, value in cpu.model_dump(exclude_none=True).items()
    }
    return format_options({side: str(width) for side, width in widths.items()})
