"""Read from a campaign's results how it ran, and compare that with the post that it repeats."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.experiment.model import Variant
from dballoc.questions.campaign.figures.side_cpus import list_side_cpus
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.client_connections import count_client_connections
from dballoc.questions.compare.split_by_host import split_by_host
from dballoc.questions.published.setup.post_differences import compare_with_post
from dballoc.questions.published.setup.run_setup import (
    DuetSetup,
    PostComparison,
    RunSetup,
    WorkloadSetup,
    join_words,
    sort_by_topic,
)
from dballoc.questions.published.setup.setting_values import normalize_name
from dballoc.store.facts import Environment

# What keeps a private server private: where it is, and how it is reached. The transport is compared
# on its own.
_PRIVATE = frozenset(
    {
        "basedir",
        "bind_address",
        "datadir",
        "lc_messages_dir",
        "no_defaults",
        "pid_file",
        "plugin_dir",
        "port",
        "skip_networking",
        "socket",
        "tmpdir",
    }
)

# What a trial's mode of THP has where the server had switched it off for itself, as host.settings
# writes it.
THP_SWITCHED_OFF = "switched off by the process"


def compare_campaign_with_post(campaign: Campaign) -> list[PostComparison]:
    """Return what the post states beside what ran; nothing for an experiment that repeats no post,
    and for results made elsewhere, whose set-up nobody knows.
    """
    post = campaign.experiment.post
    if post is None or campaign.imported:
        return []
    return _merge_hosts(
        {
            join_words(hosts): compare_with_post(post, read_campaign_setup(campaign, machine))
            for hosts, machine in _list_machines(campaign)
        }
    )


def _merge_hosts(by_hosts: Mapping[str, list[PostComparison]]) -> list[PostComparison]:
    """Return the comparisons of all hosts by topic; what is not the same on all of them has the
    names of those that it is of.
    """
    names: dict[PostComparison, list[str]] = {}
    for hosts, comparisons in by_hosts.items():
        for compared in dict.fromkeys(comparisons):
            names.setdefault(compared, []).append(hosts)
    merged = [
        compared
        if len(hosts) == len(by_hosts)
        else replace(compared, item=f"{compared.item} on {join_words(hosts)}".strip())
        for compared, hosts in names.items()
    ]
    return sort_by_topic(merged)


def read_campaign_setup(campaign: Campaign, machine: Environment | None = None) -> RunSetup:
    """Return how a campaign ran: the builds and versions that it found, the options of its servers'
    commands, the blocks that are finished. ``machine``: of several that the servers ran on, the
    environment of the one that is meant; otherwise the first's.
    """
    experiment = campaign.experiment
    rows = {row["name"]: row for row in campaign.variant.iter_rows(named=True)}
    facts = campaign.facts
    baseline = rows[experiment.baseline]
    machine = _list_machines(campaign)[0][1] if machine is None else machine
    return RunSetup(
        experiment=experiment,
        allocators={
            name: " ".join(filter(None, [row["allocator"], row["allocator_version"]]))
            for name, row in rows.items()
        },
        servers={name: row["server"] for name, row in rows.items()},
        added_options=_read_added_options(
            json.loads(baseline["command"]),
            [*experiment.server_of(experiment.find(experiment.baseline)).options],
        ),
        added_environment={
            variant.name: _read_added_environment(
                json.loads(rows[variant.name]["environment"]), variant
            )
            for variant in experiment.variant
        },
        searched=frozenset(facts.options.values()),
        defaults=facts.option_defaults,
        workloads={
            name: WorkloadSetup(
                title=work.title,
                script=work.script,
                options=work.options,
                prepared=work.prepared_statements,
                brings=work.brings,
                driver=_name_driver(work.driver, facts.sysbench or ""),
            )
            for name, work in facts.workloads.items()
        },
        blocks=None if facts.kind else campaign.blocks(Design.SOLO),
        machine=_describe_machine(machine),
        host_libc=machine.libc or "",
        host_cpus=machine.cpus,
        host_memory=machine.memory,
        host_thp=machine.thp,
        without_thp=_list_without_thp(campaign),
        host_cores=tuple(map(frozenset, machine.cpus_of_cores)),
        clients_apart=campaign.has_clients_apart,
        own_clients=_count_own_clients(campaign),
        settled_otherwise=facts.settled_otherwise,
        encryption={
            name: connections.words
            for name, connections in count_client_connections(campaign).items()
        },
        duet=None if Design.SOLO in campaign.facts.designs else _read_duet(campaign),
    )


def _count_own_clients(campaign: Campaign) -> dict[str, int]:
    """Return how many CPUs without their server clients had that were to be apart, by variant."""
    numbers = {}
    for variant in campaign.experiment.variant:
        sides = list_side_cpus(campaign, variant.name)
        if sides and campaign.experiment.cpu_of(variant).clients_apart:
            numbers[variant.name] = min(len(pair.clients - pair.server) for pair in sides)
    return numbers


def _read_duet(campaign: Campaign) -> DuetSetup | None:
    """Return how duets were set up; None before they are planned."""
    duet = campaign.facts.duet
    if duet.plan is None:
        return None
    return DuetSetup(threads=duet.threads, slice_seconds=duet.plan.slice)


def _list_machines(campaign: Campaign) -> list[tuple[list[str], Environment]]:
    """Return the machines that the servers ran on: of each kind its hosts, and the environment of
    the first of them. Before a host has finished a block, one unknown machine.
    """
    kinds: dict[tuple[Any, ...], tuple[list[str], Environment]] = {}
    for part in split_by_host(campaign):
        machine = part.environment
        # Hosts of one kind have nearly the same memory.
        memory = round((machine.memory or 0) / 2**30)
        shape = machine.cpus, machine.cpus_of_cores, machine.thp, machine.libc
        words = _describe_machine(machine)
        hosts, _ = kinds.setdefault((*shape, words, memory), ([], machine))
        hosts.append(machine.host or "")
    return [*kinds.values()] or [([], Environment())]


def _read_added_environment(environment: Mapping[str, str], variant: Variant) -> dict[str, str]:
    """Return the variables that are neither the variant's own nor how it is preloaded; nothing of a
    variant with tunables, which are in such variables too.
    """
    if variant.tunables:
        return {}
    return {k: v for k, v in environment.items() if k not in {*variant.env, "LD_PRELOAD"}}


def _list_without_thp(campaign: Campaign) -> frozenset[str]:
    """Return the variants whose servers had switched THP off for themselves."""
    is_off = pl.col("thp").str.contains(THP_SWITCHED_OFF, literal=True)
    trials = campaign.trials.filter(is_off)
    return frozenset(trials["variant"])


def _describe_machine(machine: Environment) -> str:
    """Return ``AMD EPYC 9454P (virtual machine), Debian GNU/Linux 12``, as far as it is known."""
    processor, system = machine.cpu, machine.os
    is_virtual = processor and machine.hypervisor
    mark = " (virtual machine)" if is_virtual else ""
    return join_words(filter(None, [processor and f"{processor}{mark}", system]))


def _name_driver(driver: str, sysbench_version: str) -> str:
    """Return what runs a workload, as a post would name it; empty where the results do not say."""
    names = {"hammerdb": "HammerDB", "sysbench": f"sysbench {sysbench_version}".strip()}
    return names.get(driver, "")


def _read_added_options(command: Sequence[str], chosen: Sequence[str]) -> dict[str, str]:
    """Return the options in a server's command that are not the experiment's own."""
    left_out = _PRIVATE | {normalize_name(name) for name in chosen}
    words = [word.partition("=") for word in command[1:] if word.startswith("--")]
    return {
        name: value
        for name, value in ((normalize_name(word), value) for word, _, value in words)
        if name not in left_out
    }
