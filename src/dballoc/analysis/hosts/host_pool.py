"""Decide which campaigns of several hosts are one question: what of them is pooled, what is not and
why, and what differs from host to host. Pure.

The first campaign says what the question is. The others must have had the same load on the same
variants; hosts, and the third number of a server's or any number of an allocator's version, may
differ, for a verdict over hosts is about such hosts.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import (
    MACHINE,
    STATE,
    format_difference,
    format_options,
    pair_campaigns,
)
from dballoc.analysis.hosts.split_by_host import find_own_name
from dballoc.errors import UsageError
from dballoc.store.campaign_facts import CLIENTS

# What makes a kind of host.
_KIND = ("cpu", "cpus", "memory")


@dataclass(frozen=True, kw_only=True, eq=False)
class Host:
    """A host and its campaigns, one or more. ``name`` is unique in a pool; ``kind``: its CPU, how
    many of them, and its memory.
    """

    name: str
    kind: str
    directories: tuple[Path, ...]
    campaigns: tuple[Campaign, ...]


@dataclass(frozen=True, kw_only=True)
class HostPool:
    """Hosts whose campaigns are one question. ``variants``: those of all campaigns, the baseline
    first; ``left_out``: what is not pooled, and why; ``differences``: (what, a host's value by its
    name) for all that differs.
    """

    hosts: tuple[Host, ...]
    variants: tuple[str, ...]
    left_out: tuple[str, ...]
    differences: tuple[tuple[str, dict[str, str]], ...]

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

    UsageError for a campaign that is another question, that is there twice, or that has no block.
    """
    first = campaigns[0]
    for directory, campaign in zip(directories, campaigns, strict=True):
        if not any(campaign.blocks(design) for design in campaign.designs):
            raise UsageError(f"{directory}: no block is finished yet; run dballoc bench first")
    _refuse_copies(directories, campaigns)
    for directory, campaign in zip(directories[1:], campaigns[1:], strict=True):
        if reasons := list_obstacles(first, campaign):
            raise UsageError(
                f"{directory} cannot be pooled with {directories[0]}: {'; '.join(reasons)}; leave "
                "it out"
            )
    hosts = _group_by_host(directories, campaigns, each_is_a_host)
    kept, left_out = _select_variants(directories, campaigns)
    return HostPool(
        hosts=hosts,
        variants=kept,
        left_out=(*left_out, *_list_partly_comparable(directories, campaigns)),
        differences=_list_host_differences(hosts, kept),
    )


def list_obstacles(first: Campaign, other: Campaign) -> list[str]:
    """Return why nothing of another campaign can be pooled with the first; empty if some can."""
    a, b = first.experiment, other.experiment
    if a.baseline != b.baseline:
        return [format_difference("baseline", a.baseline, b.baseline)]
    obstacles = _compare_identities(first, other, a.baseline)
    if obstacles:
        return [f"the baseline is another: {'; '.join(obstacles)}"]
    pairing = pair_campaigns(first, other)
    if len(pairing.variants) < 2:
        return ["no variant beside the baseline is in both"]
    return pairing.no_speed if pairing.no_speed and pairing.no_duet else []


def describe_identity(campaign: Campaign, name: str) -> dict[str, str]:
    """Return what a variant is, whatever the host: what must be the same to be pooled."""
    row = campaign.variant.row(by_predicate=pl.col("name") == name, named=True)
    server = campaign.experiment.server_of(campaign.experiment.find(name))
    environment = {k: v for k, v in json.loads(row["environment"]).items() if k != "LD_PRELOAD"}
    return {
        "allocator": row["allocator"],
        "environment": format_options(environment),
        "server": shorten_version(row["server"]),
        "engine": row["engine"],
        "server options": format_options({**server.init_options, **server.options}),
        "connection": server.connect,
        "clients": campaign.facts.get(CLIENTS, "on the server's host"),
        "THP": row["thp"] or "",
    }


def shorten_version(server: str) -> str:
    """Return a server without the third number of its version: ``MariaDB 10.11``."""
    return re.sub(r"(\d+\.\d+)\.\d.*", r"\1", server)


def _compare_identities(first: Campaign, other: Campaign, name: str) -> list[str]:
    before, after = describe_identity(first, name), describe_identity(other, name)
    differing = [key for key in before if before[key] != after[key]]
    return [format_difference(key, before[key], after[key]) for key in differing]


def _refuse_copies(directories: Sequence[Path], campaigns: Sequence[Campaign]) -> None:
    """Raise UsageError for a campaign that is given twice, itself or a copy."""
    directory_of: dict[tuple[Any, ...], Path] = {}
    for directory, campaign in zip(directories, campaigns, strict=True):
        facts = campaign.facts
        campaign_id = facts.get("identity"), facts.get("started"), campaign.environment.get("host")
        if campaign_id in directory_of:
            raise UsageError(
                f"{directory} and {directory_of[campaign_id]} are the same campaign; give it once"
            )
        directory_of[campaign_id] = directory


def _group_by_host(
    directories: Sequence[Path], campaigns: Sequence[Campaign], each_is_a_host: bool
) -> tuple[Host, ...]:
    """Group campaigns by the machine that they ran on, by its own name and its CPUs. Machines of
    one name in one campaign are several: these go by the name with their address.
    """
    machines = [
        (find_own_name(c), *(c.environment.get(key) for key in ("cpu", "cpus", "machine")))
        for c in campaigns
    ]
    counts = Counter(zip(directories, machines, strict=True))
    shared = {machine for (_, machine), number in counts.items() if number > 1}
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, (campaign, machine) in enumerate(zip(campaigns, machines, strict=True)):
        key: tuple[Any, ...] = machine
        if each_is_a_host:
            key = (number,)
        elif machine in shared:
            key = (campaign.environment.get("host"), *machine)
        groups.setdefault(key, []).append(number)
    hosts: list[Host] = []
    for numbers in groups.values():
        of_host = tuple(campaigns[number] for number in numbers)
        name = str(of_host[0].environment.get("host") or directories[numbers[0]].name)
        same_name = sum(re.sub(r" \(\d+\)$", "", host.name) == name for host in hosts)
        hosts.append(
            Host(
                name=f"{name} ({same_name + 1})" if same_name else name,
                kind=describe_kind(of_host[0].environment),
                directories=tuple(directories[number] for number in numbers),
                campaigns=of_host,
            )
        )
    return tuple(hosts)


def describe_kind(environment: dict[str, Any]) -> str:
    """Return a host's kind: ``Xeon, 8 CPUs, 32 GiB``."""
    cpu, cpus, memory = (environment.get(key) for key in _KIND)
    parts = [str(cpu or "unknown CPU")]
    if cpus:
        parts.append(f"{cpus} CPU{'s' if cpus != 1 else ''}")
    if memory:
        parts.append(f"{round(memory / 2**30)} GiB")
    return ", ".join(parts)


def _select_variants(
    directories: Sequence[Path], campaigns: Sequence[Campaign]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the variants that all campaigns have and that are the same in all, and sentences on
    the others.
    """
    first = campaigns[0]
    kept = []
    left_out = []
    for name in dict.fromkeys(name for campaign in campaigns for name in campaign.names):
        reasons = []
        if lacking := [
            str(d) for d, c in zip(directories, campaigns, strict=True) if name not in c.names
        ]:
            reasons.append(f"not in {', '.join(lacking)}")
        else:
            for directory, campaign in zip(directories[1:], campaigns[1:], strict=True):
                reasons += [
                    f"{directory}: {text}" for text in _compare_identities(first, campaign, name)
                ]
        if reasons:
            left_out.append(f"variant {name}: {'; '.join(reasons)}")
        else:
            kept.append(name)
    return tuple(kept), left_out


def _list_partly_comparable(
    directories: Sequence[Path], campaigns: Sequence[Campaign]
) -> list[str]:
    """Return which measures of a campaign are not pooled, and why."""
    sentences = []
    for directory, campaign in zip(directories[1:], campaigns[1:], strict=True):
        pairing = pair_campaigns(campaigns[0], campaign)
        has_duet = "duet" in campaigns[0].designs or "duet" in campaign.designs
        for measures, reasons in (
            ("throughput and memory", pairing.no_speed),
            ("memory", pairing.no_memory if not pairing.no_speed else []),
            ("the duet's CPU", pairing.no_duet if has_duet else []),
        ):
            if reasons:
                sentences.append(f"{measures} of {directory}: {'; '.join(reasons)}")
    return sentences


def _list_host_differences(
    hosts: Sequence[Host], variants: Sequence[str]
) -> tuple[tuple[str, dict[str, str]], ...]:
    by_host = {host.name: _describe_host(host.campaigns[0], variants) for host in hosts}
    keys = dict.fromkeys(key for facts in by_host.values() for key in facts)
    rows = [
        (key, {name: facts.get(key, "unknown") for name, facts in by_host.items()}) for key in keys
    ]
    return tuple((key, values) for key, values in rows if len(set(values.values())) > 1)


def _describe_host(campaign: Campaign, variants: Sequence[str]) -> dict[str, str]:
    """Return what may differ from host to host: the machine, its state, and exact versions."""
    facts = {
        key.replace("_", " "): str(campaign.environment[key])
        for key in (*MACHINE, *STATE)
        if key != "memory" and campaign.environment.get(key) is not None
    }
    if memory := campaign.environment.get("memory"):
        facts["memory"] = f"{round(memory / 2**30)} GiB"
    for name in variants:
        row = campaign.variant.row(by_predicate=pl.col("name") == name, named=True)
        facts[f"server of {name}"] = f"{row['server']} ({row['server_version']})"
        facts[f"allocator of {name}"] = " ".join(
            filter(None, [row["allocator"], row["allocator_version"]])
        )
    return facts
