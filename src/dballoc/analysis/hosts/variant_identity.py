"""What a variant is, whatever the host: what must be the same on all of them to be pooled. Pure."""

import json
import re

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import format_difference, format_options
from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.model import Cpu
from dballoc.store.campaign_facts import CLIENTS


def compare_identities(first: Campaign, other: Campaign, name: str) -> list[str]:
    """Return in what a variant of two campaigns differs; empty if it is the same."""
    before, after = describe_identity(first, name), describe_identity(other, name)
    differing = [key for key in before if before[key] != after[key]]
    return [format_difference(key, before[key], after[key]) for key in differing]


def describe_identity(campaign: Campaign, name: str) -> dict[str, str]:
    """Return what a variant is, setting by setting."""
    row = campaign.variant.row(by_predicate=pl.col("name") == name, named=True)
    variant = campaign.experiment.find(name)
    server = campaign.experiment.server_of(variant)
    environment = {k: v for k, v in json.loads(row["environment"]).items() if k != "LD_PRELOAD"}
    return {
        "allocator": row["allocator"],
        "environment": format_options(environment),
        "server": shorten_version(row["server"]),
        "C library": server.glibc or "",
        "engine": row["engine"],
        "server options": format_options({**server.init_options, **server.options}),
        "connection": server.connect,
        "clients": campaign.facts.get(CLIENTS, "on the server's host"),
        "numbers of CPUs": _describe_widths(campaign.experiment.cpu_of(variant)),
        "THP": row["thp"] or "",
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
