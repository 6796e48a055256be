"""Find the levels at which CPUs are full: there no malloc can make a server use more of them, so
shares of CPU converge whatever it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.ground.numbers import count, listing, percent
from dballoc.questions.campaign.figures.level_curves import average_levels
from dballoc.questions.campaign.figures.side_cpus import has_own_cpus
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.split_by_host import list_environments

# CPUs that are idle for less than this share of the time are full.
_IDLE = 0.05
# So many workloads are named; more are counted.
_MOST = 6


@dataclass(frozen=True, kw_only=True)
class LevelIdle:
    """A level of a variant, and the share of the time for which CPUs were idle, or for which the
    server did not use them (1 = all).
    """

    workload: str
    threads: int
    variant: str
    idle: float


def describe_full_cpus(campaign: Campaign) -> list[str]:
    """Return sentences on the levels at which the host's CPUs were full, and at which servers with
    CPUs of their own used all of these; nothing where neither was measured.
    """
    host, servers = list_host_idle(campaign), list_server_idle(campaign)
    sentences = [
        *([describe_host(host, campaign.names)] if host else []),
        *([describe_servers(servers, campaign.names)] if servers else []),
    ]
    if host and not servers and (parts := _list_smaller_counts(campaign)):
        sentences.append(
            f"Server and clients ran on {listing(parts)}; whether these alone were full was not "
            "measured."
        )
    if any(level.idle < _IDLE for level in (*host, *servers)):
        sentences.append(
            "Where CPUs are full, user CPU is near its most with any malloc: what differs there "
            "is throughput and cpu/o."
        )
    return sentences


def list_host_idle(campaign: Campaign) -> list[LevelIdle]:
    """Return how idle the host was at each level, as far as it was measured."""
    return [
        LevelIdle(workload=workload, threads=threads, variant=variant, idle=mean / 100)
        for (workload, threads, variant), mean in _read_means(campaign, "host_idle").items()
    ]


def list_server_idle(campaign: Campaign) -> list[LevelIdle]:
    """Return what each server did not use of its own CPUs at each level, of variants whose servers
    have some (``cpu.server``, or clients that were apart).
    """
    numbers = _count_own_cpus(campaign)
    user, system = (_read_means(campaign, measure) for measure in ("user", "system"))
    return [
        LevelIdle(
            workload=place[0],
            threads=place[1],
            variant=place[2],
            idle=1 - (user[place] + system[place]) / 100 / numbers[place[2]],
        )
        for place in user
        if place[2] in numbers and place in system
    ]


def _count_own_cpus(campaign: Campaign) -> dict[str, int]:
    """Return how many CPUs of its own each server has; nothing for those that have none."""
    numbers = {}
    for variant in campaign.experiment.variant:
        cpu = campaign.experiment.cpu_of(variant)
        if cpu.server:
            numbers[variant.name] = len(parse_cpus(cpu.server))
        elif cpu.count and cpu.clients_apart and has_own_cpus(campaign, variant.name):
            numbers[variant.name] = cpu.count
    return numbers


def describe_host(levels: Sequence[LevelIdle], variants: Sequence[str]) -> str:
    """Return the sentence on the levels at which the host's CPUs were full, or on the nearest to
    it.
    """
    rule = f"(idle for less than {percent(_IDLE, 0)} of the time)"
    if full := _describe_full(levels, variants):
        return f"The host's CPUs were full {rule} in {full}."
    nearest = min(levels, key=lambda level: level.idle)
    return (
        f"At no level were the host's CPUs full {rule}: idle for {percent(nearest.idle)} at the "
        f"least, {_describe_level(nearest)}."
    )


def describe_servers(levels: Sequence[LevelIdle], variants: Sequence[str]) -> str:
    """Return the sentence on the levels at which servers used all of their own CPUs, or on the
    nearest to it. Others may have used these too.
    """
    rule = f"(at least {percent(1 - _IDLE, 0)} of their time)"
    if full := _describe_full(levels, variants):
        return f"Servers used all of their own CPUs {rule} in {full}."
    nearest = min(levels, key=lambda level: level.idle)
    return (
        f"At no level did a server use all of its own CPUs {rule}: {percent(1 - nearest.idle)} at "
        f"the most, {_describe_level(nearest)}."
    )


def _describe_level(level: LevelIdle) -> str:
    return f"{level.workload} with {count(level.threads, 'client')} under {level.variant}"


def _describe_full(levels: Sequence[LevelIdle], variants: Sequence[str]) -> str:
    """Return the levels at which CPUs were full, by workload; empty where there are none."""
    by_workload: dict[str, dict[int, list[str]]] = {}
    for level in levels:
        if level.idle < _IDLE:
            by_level = by_workload.setdefault(level.workload, {})
            by_level.setdefault(level.threads, []).append(level.variant)
    parts = [
        f"{workload} with {_describe_levels(by_level, variants)}"
        for workload, by_level in by_workload.items()
    ]
    more = len(parts) - _MOST
    return "; ".join(parts if more <= 0 else [*parts[:_MOST], count(more, "more workload")])


def _describe_levels(by_level: Mapping[int, Sequence[str]], variants: Sequence[str]) -> str:
    """Return ``256 (jemalloc) and 512 clients (all variants)``."""
    words = []
    for threads, names in sorted(by_level.items()):
        everywhere = set(names) == set(variants)
        words.append(f"{threads} ({'all variants' if everywhere else listing(names)})")
    last = words[-1].replace(" (", f" client{'' if max(by_level) == 1 else 's'} (", 1)
    return listing([*words[:-1], last])


def _read_means(campaign: Campaign, measure: str) -> dict[tuple[str, int, str], float]:
    rows = average_levels(campaign).filter(measure=measure)
    columns = rows.select("workload", "threads", "variant", "mean")
    return {(work, threads, name): mean for work, threads, name, mean in columns.iter_rows()}


def _list_smaller_counts(campaign: Campaign) -> list[str]:
    """Return on how many of the host's CPUs servers and clients ran, where these were not all."""
    hosts = [machine.cpus for machine in list_environments(campaign) if machine.cpus]
    counted = _count_own_cpus(campaign)
    variants = [v for v in campaign.experiment.variant if v.name not in counted]
    counts = {campaign.experiment.cpu_of(v).count for v in variants}
    fewer = sorted(n for n in counts if n is not None and hosts and n < max(hosts))
    return [f"{n} of {max(hosts)} CPUs" for n in fewer]
