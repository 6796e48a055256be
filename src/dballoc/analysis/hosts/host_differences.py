"""List what differs from host to host although it is pooled, and hosts that differ in nothing.
Pure.
"""

import json
from collections.abc import Sequence
from pathlib import PurePosixPath

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import MACHINE, STATE, format_options
from dballoc.analysis.hosts.group_by_host import Host

# A fact of every variant; the name of one follows.
ALLOCATOR_OF = "allocator of "


def list_host_differences(
    hosts: Sequence[Host], variants: Sequence[str]
) -> tuple[tuple[str, dict[str, str]], ...]:
    """Return (what, a host's value by its name) for all that is not the same on all hosts."""
    by_host = {host.name: _describe_host(host, variants) for host in hosts}
    keys = dict.fromkeys(key for facts in by_host.values() for key in facts)
    rows = [
        (key, {name: facts.get(key, "unknown") for name, facts in by_host.items()}) for key in keys
    ]
    return tuple((key, values) for key, values in rows if len(set(values.values())) > 1)


def list_alike_hosts(hosts: Sequence[Host]) -> tuple[tuple[str, ...], ...]:
    """Return the names of hosts that may be one machine: those that differ in nothing but their
    name, where not all of them have recorded the boot ID, which would tell.
    """
    alike: dict[str, list[Host]] = {}
    for host in hosts:
        environment = host.campaigns[0].environment
        facts = {k: v for k, v in environment.items() if k not in ("host", "boot_id")}
        alike.setdefault(json.dumps(facts, sort_keys=True), []).append(host)
    return tuple(
        tuple(host.name for host in group)
        for group in alike.values()
        if len(group) > 1
        and not all(host.campaigns[0].environment.get("boot_id") for host in group)
    )


def _describe_host(host: Host, variants: Sequence[str]) -> dict[str, str]:
    """Return what may differ from host to host; of its campaigns, all their values."""
    values: dict[str, list[str]] = {}
    for campaign in host.campaigns:
        for key, value in _describe_campaign(campaign, variants).items():
            values.setdefault(key, []).append(value)
    return {key: " or ".join(dict.fromkeys(of_key)) for key, of_key in values.items()}


def _describe_campaign(campaign: Campaign, variants: Sequence[str]) -> dict[str, str]:
    """Return the machine, its state, and exact versions."""
    facts = {
        key.replace("_", " "): str(campaign.environment[key])
        for key in (*MACHINE, *STATE)
        if key != "memory" and campaign.environment.get(key) is not None
    }
    if memory := campaign.environment.get("memory"):
        facts["memory"] = f"{round(memory / 2**30)} GiB"
    if sysbench := campaign.facts.get("sysbench"):
        facts["sysbench"] = sysbench
    if plan := campaign.duet_fact.get("plan"):
        facts["slices of the duet"] = f"{plan['slice']:g} s, {plan['discard']:g} s discarded"
    for name in variants:
        facts |= _describe_variant(campaign, name)
    return facts


def _describe_variant(campaign: Campaign, name: str) -> dict[str, str]:
    row = campaign.variant.row(by_predicate=pl.col("name") == name, named=True)
    cpu = campaign.experiment.cpu_of(campaign.experiment.find(name))
    sets = {side: str(value) for side, value in cpu.model_dump(exclude_none=True).items()}
    preloaded = " ".join(PurePosixPath(path).name for path in json.loads(row["libraries"]))
    return {
        f"server of {name}": f"{row['server']} ({row['server_version']})",
        f"{ALLOCATOR_OF}{name}": " ".join(
            filter(None, [row["allocator"], row["allocator_version"]])
        ),
        f"preloaded for {name}": preloaded or "nothing",
        f"CPUs of {name}": format_options(sets) or "all",
    }
