"""Decide what of two campaigns can be compared, what cannot and why, and list what differs although
it is compared. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from dballoc.experiment.cpu_list import parse_cpus
from dballoc.experiment.designs import Design
from dballoc.experiment.model import Experiment
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.split_by_host import list_environments
from dballoc.store.facts import Environment

# A difference in these makes two machines: a server's speed on one says nothing about the other.
MACHINE = ("cpu", "cpus", "cores", "numa_nodes", "memory", "machine")
# What may change a server's speed or memory on the same machine.
STATE = (
    "kernel",
    "os",
    "libc",
    "thp",
    "thp_defrag",
    "thp_sizes",
    "governor",
    "aslr",
    "overcommit",
    "hypervisor",
)

# A setting's name, and its value in the first and in the second campaign.
_Setting = tuple[str, Any, Any]


@dataclass(frozen=True)
class VariantChange:
    """A difference between the two campaigns' variants of the same names, which may be what the
    comparison is about.
    """

    variants: tuple[str, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class Comparability:
    """What two campaigns have in common. ``first`` and ``second``: all variant names of each;
    ``variants``: those in both, the first campaign's baseline in front.

    ``levels``: the highest common level of each of the common ``workloads``. ``no_speed``,
    ``no_memory``, ``no_idle``, ``no_duet``, ``no_turns``: why solo's throughput and response time,
    peak RSS, idle RSS, the duet's CPU per transaction, or turns' throughput cannot be compared;
    empty if they can. ``machine``:
    differences that make the machines different ones; ``state``: differences on the same machine.
    ``baseline``: the unchanged baseline of both, or None, for the reason in ``no_baseline``.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    variants: tuple[str, ...]
    levels: dict[str, int]
    unpaired: list[str] = field(default_factory=list)
    changes: list[VariantChange] = field(default_factory=list)
    no_speed: list[str] = field(default_factory=list)
    no_memory: list[str] = field(default_factory=list)
    no_idle: list[str] = field(default_factory=list)
    no_duet: list[str] = field(default_factory=list)
    no_turns: list[str] = field(default_factory=list)
    machine: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    baseline: str | None = None
    no_baseline: str = ""
    workloads: tuple[str, ...] = ()


def pair_campaigns(first: Campaign, second: Campaign) -> Comparability:
    """Compare both experiments, what the variants were, and both machines."""
    a, b = first.experiment, second.experiment
    both = tuple(name for name in first.names if name in second.names)
    unpaired = [f"variant {n}: only in the first" for n in first.names if n not in both]
    unpaired += [f"variant {n}: only in the second" for n in second.names if n not in both]
    levels: dict[str, int] = {}
    for workload in a.workloads:
        common = [t for t in a.threads if t in b.threads]
        if workload not in b.workloads:
            unpaired.append(f"workload {workload}: only in the first")
        elif not common:
            unpaired.append(
                f"workload {workload}: no common level: {_join(a.threads)} clients in the first, "
                f"{_join(b.threads)} in the second"
            )
        else:
            levels[workload] = max(common)
    unpaired += [f"workload {w}: only in the second" for w in b.workloads if w not in a.workloads]
    differences = {name: _compare_variants(first, second, name) for name in both}
    load = _compare_loads(first, second)
    no_speed = [*_compare_designs(first, second, Design.SOLO), *load]
    if a.levels != b.levels:
        no_speed.append(format_difference("levels", a.levels, b.levels))
    no_memory = [*no_speed, *_compare_histories(a, b), *_compare_windows(a, b)]
    no_memory += [
        f"the trace of the {which} was recorded from some moment on"
        for which, campaign in (("first", first), ("second", second))
        if not campaign.has_whole_heap
    ]
    idle = (
        [] if a.time.idle == b.time.idle else [f"idle {a.time.idle:g} s against {b.time.idle:g} s"]
    )
    baseline, why = _find_common_baseline(a, b, differences)
    return Comparability(
        first=tuple(first.names),
        second=tuple(second.names),
        variants=both,
        levels=levels,
        unpaired=unpaired,
        changes=_group_by_text(differences),
        no_speed=no_speed,
        no_memory=no_memory,
        no_idle=[*no_memory, *idle],
        no_turns=[*_compare_designs(first, second, Design.TURNS), *load],
        no_duet=[
            *_compare_designs(first, second, Design.DUET),
            *load,
            *_compare_duets(first, second),
        ],
        machine=_compare_environments(first, second, MACHINE),
        state=_compare_environments(first, second, STATE),
        baseline=baseline,
        no_baseline=why,
        workloads=tuple(w for w in a.workloads if w in b.workloads),
    )


def _compare_designs(first: Campaign, second: Campaign, design: str) -> list[str]:
    lacking = [
        which
        for which, c in (("first", first), ("second", second))
        if design not in c.facts.designs
    ]
    return [f"no {design} design in the {' and the '.join(lacking)}"] if lacking else []


def _compare_duets(first: Campaign, second: Campaign) -> list[str]:
    """Compare the width: the clients of each side, and the CPUs they ran on."""
    first_duet, second_duet = (c.facts.duet for c in (first, second))
    duets = first_duet, second_duet
    widths = [[len(parse_cpus(half)) for half in duet.halves] for duet in duets]
    of_clients = [[len(parse_cpus(half)) for half in duet.client_halves] for duet in duets]
    pairs: list[_Setting] = [
        ("clients a side", first_duet.threads, second_duet.threads),
        ("CPUs of the halves", widths[0], widths[1]),
        ("CPUs of the clients' halves", of_clients[0], of_clients[1]),
    ]
    both = Design.DUET in first.facts.designs and Design.DUET in second.facts.designs
    return _list_differences(pairs) if both else []


def _compare_loads(first: Campaign, second: Campaign) -> list[str]:
    """Compare what both campaigns must have in common for any figure to be comparable."""
    a, b = first.experiment, second.experiment
    pairs: list[_Setting] = [
        ("tables", a.data.tables, b.data.tables),
        ("rows", a.data.rows, b.data.rows),
        ("random numbers", a.load.random, b.load.random),
        ("prepared statements", *_list_prepared(first, second)),
        ("load options", format_options(a.load.options), format_options(b.load.options)),
        ("memory limit", a.limits.memory, b.limits.memory),
        ("warm-up SQL", a.warmup_sql, b.warmup_sql),
        *_pair_replays(a, b),
    ]
    return _list_differences(pairs)


def _pair_replays(a: Experiment, b: Experiment) -> list[_Setting]:
    """Return what both must replay, and how; of one that replays nothing, None."""
    first, second = a.replay, b.replay
    return [
        ("trace", first and first.sha256[:16], second and second.sha256[:16]),
        ("replay's mode", first and first.mode, second and second.mode),
        ("replay's speed", first and first.speed, second and second.speed),
        ("pages touched", first and first.touch, second and second.touch),
    ]


def _compare_windows(a: Experiment, b: Experiment) -> list[str]:
    """Compare the stretches of the trace whose peak heap is judged."""
    first, second = (e.replay.window if e.replay else None for e in (a, b))
    if first == second:
        return []
    words = (_describe_window(window) for window in (first, second))
    return [format_difference("stretch judged", *words)]


def _describe_window(window: tuple[float, float] | None) -> str:
    return "all" if window is None else f"{window[0]:,.9g} to {window[1]:,.9g} s"


def _list_prepared(first: Campaign, second: Campaign) -> tuple[str, str]:
    """Return, for each campaign, the common workloads whose statements are prepared in one campaign
    and sent as text in the other.
    """
    a, b = (
        {w: facts.prepared_statements for w, facts in c.facts.workloads.items()}
        for c in (first, second)
    )
    differing = [w for w in a if w in b and a[w] != b[w]]
    in_first, in_second = (
        ", ".join(f"{w} {'on' if prepared[w] else 'off'}" for w in differing) for prepared in (a, b)
    )
    return in_first, in_second


def _compare_histories(a: Experiment, b: Experiment) -> list[str]:
    """Compare what memory also depends on: all that a server does after its start, and for how
    long.
    """
    pairs: list[_Setting] = [
        ("workloads", _join(a.workloads), _join(b.workloads)),
        ("sequence", a.sequence, b.sequence),
        ("warm-up workloads", _join(a.warm), _join(b.warm)),
        ("before workloads", _join_before(a), _join_before(b)),
        ("clients", _join(a.threads), _join(b.threads)),
        ("warm-up, s", a.time.warmup, b.time.warmup),
        *([("settling, s", a.time.settle, b.time.settle)] if a.settles and b.settles else []),
        ("level, s", a.time.level, b.time.level),
    ]
    return _list_differences(pairs)


def _compare_variants(first: Campaign, second: Campaign, name: str) -> list[str]:
    before, after = describe_variant(first, name), describe_variant(second, name)
    return [
        format_difference(setting, before.get(setting), after.get(setting), "→")
        for setting in before | after
        if before.get(setting) != after.get(setting)
    ]


def describe_variant(campaign: Campaign, name: str) -> dict[str, Any]:
    """Return what a variant was, without the paths of its files."""
    experiment = campaign.experiment
    row = campaign.variant.row(by_predicate=pl.col("name") == name, named=True)
    server, cpu = (
        experiment.server_of(experiment.find(name)),
        experiment.cpu_of(experiment.find(name)),
    )
    environment = {k: v for k, v in json.loads(row["environment"]).items() if k != "LD_PRELOAD"}
    return {
        "allocator": " ".join(filter(None, [row["allocator"], row["allocator_version"]])),
        "preloaded": " ".join(PurePosixPath(p).name for p in json.loads(row["libraries"])),
        "environment": format_options(environment),
        "server": f"{row['server']} ({row['server_version']}) {row['engine']}",
        "server options": format_options({**server.init_options, **server.options}),
        "connection": server.connect,
        "THP": row["thp"],
        "CPUs": format_options({k: str(v) for k, v in cpu.model_dump(exclude_none=True).items()}),
    }


def _find_common_baseline(
    a: Experiment, b: Experiment, differences: Mapping[str, list[str]]
) -> tuple[str | None, str]:
    if max(len(a.split_by_cpus()), len(b.split_by_cpus())) > 1:
        return None, "there are several numbers of CPUs, each with a baseline of its own"
    if a.baseline != b.baseline:
        return None, f"the baseline is {a.baseline} in the first and {b.baseline} in the second"
    if changed := differences[a.baseline]:
        return None, f"the baseline {a.baseline} is not the same in both ({'; '.join(changed)})"
    return a.baseline, ""


def _group_by_text(differences: Mapping[str, list[str]]) -> list[VariantChange]:
    """The same change of several variants once."""
    by_text: dict[str, list[str]] = {}
    for name, texts in differences.items():
        for text in texts:
            by_text.setdefault(text, []).append(name)
    return [VariantChange(tuple(names), text) for text, names in by_text.items()]


def _compare_environments(first: Campaign, second: Campaign, keys: tuple[str, ...]) -> list[str]:
    machines = [list_environments(campaign) for campaign in (first, second)]
    return _list_differences(
        [(key.replace("_", " "), *(_join_values(each, key) for each in machines)) for key in keys]
    )


def _join_values(machines: list[Environment], key: str) -> Any:
    """Return what the machines have: the value where it is the same on all, else all of them."""
    values = []
    for machine in machines:
        value = getattr(machine, key)
        # The kernel's own share of the memory changes with its version.
        if key == "memory" and value:
            value = f"{round(value / 2**30)} GiB"
        if value not in values:
            values.append(value)
    return values[0] if len(values) == 1 else " or ".join(sorted(map(str, values)))


def _list_differences(settings: list[_Setting]) -> list[str]:
    return [
        format_difference(name, first_value, second_value)
        for name, first_value, second_value in settings
        if first_value != second_value
    ]


def format_difference(
    setting: str, first_value: Any, second_value: Any, joint: str = "against"
) -> str:
    """Return ``rows: 1000 against 2000``."""
    return f"{setting}: {_format_value(first_value)} {joint} {_format_value(second_value)}"


def _format_value(value: Any) -> str:
    match value:
        case None | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return _join(value)
        case _:
            return str(value)


def _join(values: Any) -> str:
    return ", ".join(map(str, values))


def _join_before(experiment: Experiment) -> str:
    return "; ".join(f"{w}: {_join(names)}" for w, names in experiment.before.items())


def format_options(options: Mapping[str, str]) -> str:
    """Return options, or variables, in alphabetical order: ``a=1 b``."""
    return " ".join(f"{k}={v}" if v else k for k, v in sorted(options.items()))
