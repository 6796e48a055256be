"""Decide which campaigns of several hosts are one question: what of them is pooled, what is not and
why, and what differs from host to host. Pure.

The first campaign says what the question is. The others must have had the same load on the same
variants; hosts, and the third number of a server's or any number of an allocator's version, may
differ, for a verdict over hosts is about such hosts.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import (
    Pairing,
    format_difference,
    format_options,
    pair_campaigns,
)
from dballoc.analysis.hosts.group_by_host import Host, HostResults, group_by_host
from dballoc.analysis.hosts.host_differences import list_alike_hosts, list_host_differences
from dballoc.analysis.measures import Metric
from dballoc.analysis.tables.baseline_comparison import list_metrics
from dballoc.errors import UsageError
from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Cpu
from dballoc.numbers import listing
from dballoc.store.campaign_facts import CLIENTS

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

    hosts: tuple[Host, ...]
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

    UsageError for a campaign that is another question, that is there twice, or that has no block.
    """
    for directory, campaign in zip(directories, campaigns, strict=True):
        if not any(campaign.blocks(design) for design in campaign.designs):
            raise UsageError(f"{directory}: no block is finished yet; run dballoc bench first")
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
        campaign_id = facts.get("identity"), facts.get("started"), campaign.environment.get("host")
        if campaign_id in directory_of:
            raise UsageError(
                f"{directory} and {directory_of[campaign_id]} are the same campaign; give it once"
            )
        directory_of[campaign_id] = directory


def _refuse_other_questions(
    campaigns: Mapping[Path, Campaign], obstacles: Mapping[Path, _Obstacles]
) -> None:
    """Raise UsageError for campaigns of which nothing can be pooled with the first; where that are
    all others, the first is the odd one.
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
    metric: Metric, first: Campaign, other: Campaign, pairing: Pairing
) -> list[str]:
    if metric.design == Design.DUET:
        return pairing.no_duet or _compare_duets(first, other)
    if metric.workload is not None:
        return pairing.no_speed
    return pairing.no_memory if metric.question == "memory" else pairing.no_idle


def _explain_missing(workload: str, first: Campaign, other: Campaign) -> list[str]:
    """Return why a campaign has not the other's figure of a workload, if it is its load's fault."""
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
