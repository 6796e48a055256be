"""Tables of what a campaign ran on: machine, tools, hosts, variants, command lines."""

import json
import shlex
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from dballoc.document.model import Column, Table, tabulate
from dballoc.experiment.cpu_list import format_cpus
from dballoc.ground.numbers import NOTHING, count, listing, with_unit
from dballoc.questions.campaign.figures.side_cpus import list_side_cpus
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.split_by_host import list_environments
from dballoc.store.facts import Environment


def tabulate_environment(campaign: Campaign) -> Table:
    """Return the machine and the tools."""
    facts, e = campaign.facts, campaign.environment
    is_driver = campaign.placement.height > 0
    on_off = "virtual machine" if e.hypervisor else "no hypervisor seen"
    sysbench = "" if facts.sysbench is None else f"sysbench {facts.sysbench}, "
    ran = "replays" if campaign.is_replay else "servers"
    swap = f"swap {with_unit(e.swap)}" if e.swap else "no swap"
    thp_sizes = f", sizes: {e.thp_sizes}" if e.thp_sizes else ""
    numa_nodes = 1 if e.numa_nodes is None else e.numa_nodes
    rows: dict[str, str | None] = {
        "driver" if is_driver else "host": f"{e.host} ({on_off})",
        "CPU": f"{_describe_cpus(e)}, {count(numa_nodes, 'NUMA node')}{_describe_nodes(e)}",
        "CPU governor": e.governor,
        "memory": f"{with_unit(e.memory)}, {swap}",
        "system": f"{e.os}, {e.libc}",
        "kernel": f"{e.kernel} {e.machine}",
        "THP": f"{e.thp}, defrag: {e.thp_defrag}{thp_sizes}",
        "ASLR, overcommit": f"{e.aslr}, {e.overcommit}",
        "started by": f"{e.user}; {ran} ran as {facts.server_user}",
        "tools": f"dballoc {facts.dballoc}, {sysbench}Python {e.python}",
        "began (UTC)": format_moment(facts.started),
        "seed": str(facts.seed),
    }
    return tabulate("Driver and tools" if is_driver else "Machine and tools", FOUND, rows.items())


# Of pairs of what and its value.
FOUND = Column("what", itemgetter(0)), Column("as found", itemgetter(1), words=True)


def _describe_nodes(machine: Environment) -> str:
    """Return which CPUs are of which NUMA node; empty where all are of one."""
    nodes = machine.cpus_of_nodes.items()
    words = (f"node {node}: {cpus}" for node, cpus in nodes)
    return f" ({'; '.join(words)})" if len(nodes) > 1 else ""


def _describe_cpus(machine: Environment) -> str:
    cpus, cores = count(machine.cpus or 0, "CPU"), count(machine.cores or 0, "core")
    return f"{machine.cpu}: {cpus}, {cores}"


def tabulate_hosts(campaign: Campaign) -> Table:
    """Return the machines to which blocks were given; those that are alike in one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for e in list_environments(campaign):
        memory = f"{round((e.memory or 0) / 2**30)} GiB"
        shape = (_describe_cpus(e), memory, str(e.kernel), str(e.os), str(e.thp))
        alike.setdefault(shape, []).append(str(e.host))
    return Table(
        title="Hosts",
        columns=["hosts", "CPU", "memory", "kernel", "system", "THP"],
        rows=[[listing(names), *shape] for shape, names in alike.items()],
        words=("CPU", "kernel", "system", "THP"),
    )


def tabulate_variants(campaign: Campaign) -> Table:
    """Return each variant's allocator, server, settings, and CPUs as far as trials had them."""

    def list_found(row: dict[str, Any], key: str) -> str:
        trials = campaign.trials.filter(variant=row["name"])
        return ", ".join(trials[key].drop_nulls().unique(maintain_order=True))

    def list_environment(row: dict[str, Any]) -> str:
        variables = json.loads(row["environment"]).items()
        return "\n".join(f"{k}={shlex.quote(v)}" for k, v in variables if k != "LD_PRELOAD")

    columns = [
        Column("variant", "name"),
        Column(
            "allocator", lambda r: " ".join(filter(None, [r["allocator"], r["allocator_version"]]))
        ),
        Column("server", lambda r: f"{r['server']}, {r['engine']}"),
        Column("buffer pool", lambda r: r["pool_bytes"] or None, with_unit),
        Column("preloaded", lambda r: "\n".join(json.loads(r["libraries"]))),
        Column("environment", list_environment),
        Column(
            "THP",
            lambda r: (
                f"asked: {r['thp'] or 'as the host has it'}\n"
                f"found: {list_found(r, 'thp') or NOTHING}"
            ),
        ),
        Column("CPUs of the server", lambda r: list_found(r, "cpus")),
    ]
    of_clients = {name: describe_client_cpus(campaign, name) for name in campaign.names}
    if any(of_clients.values()):
        columns.append(Column("CPUs of its clients", lambda r: of_clients[r["name"]]))
    by_name = {r["name"]: r for r in campaign.variant.iter_rows(named=True)}
    return tabulate("Variants", columns, [by_name[name] for name in campaign.names], words=True)


def describe_client_cpus(campaign: Campaign, name: str) -> str:
    """Return the CPUs that the clients of a variant had on this host, and whether they were beside
    the server though they were to be apart; empty where they were elsewhere.
    """
    cpu = campaign.experiment.cpu_of(campaign.experiment.find(name))
    words = []
    for server, clients in list_side_cpus(campaign, name):
        beside = " (beside the server: too few others)" if server & clients else ""
        words.append(f"{format_cpus(clients)}{beside if cpu.clients_apart else ''}")
    return ", ".join(dict.fromkeys(words))


def format_server_commands(campaign: Campaign) -> dict[str, str]:
    """Return the server's command line by variant, one option a line."""
    words_by_name = dict(campaign.variant.select("name", "command").iter_rows())
    return {
        name: " \\\n  ".join(shlex.quote(word) for word in json.loads(words_by_name[name]))
        for name in campaign.names
    }


def format_moment(epoch: float) -> str:
    """Return seconds since the epoch as date and time, UTC."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M")
