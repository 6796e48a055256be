"""Fit an experiment's CPUs to a machine that has fewer. Pure."""

import json
from collections.abc import Collection
from typing import Any

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.model import Cpu, Experiment

Table = dict[str, Any]

# Keys of a variant that change nothing of what runs.
_WORDS = ("name", "stands_for", "not_settable")


def fit_cpus(table: Table, available: Collection[int]) -> Table:
    """Return an experiment's table with CPUs taken from ``available`` where it asks for others.

    The sets of server and client keep their proportion; with one CPU they share it. Numbers of CPUs
    shrink so that the highest becomes all of them. Of variants that differ only in their number of
    CPUs and become identical, the first stays.
    """
    most = max((cpu["count"] for cpu in _list_cpus(table) if "count" in cpu), default=0)
    result = table | {"variant": [dict(v) for v in table["variant"]]}
    for holder in (result, *result["variant"]):
        if "cpu" in holder:
            holder["cpu"] = _shrink_cpus(holder["cpu"], most, sorted(available))
    return _drop_identical_variants(result) if most > len(available) else result


def describe_missing_cpus(experiment: Experiment, available: Collection[int]) -> str | None:
    """Return how an experiment asks for CPUs that are not available, ``server 0-7, client 8-15`` or
    ``4, 8, 16, 32``; None if all are.
    """
    every = [experiment.cpu, *(v.cpu for v in experiment.variant if v.cpu)]
    counts = sorted({cpu.count for cpu in every if cpu.count})
    if counts and counts[-1] > len(available):
        return ", ".join(map(str, counts))
    beyond = next((cpu for cpu in every if _collect_cpu_numbers(cpu) - set(available)), None)
    if beyond is None:
        return None
    sides = {"server": beyond.server, "client": beyond.client}
    return ", ".join(f"{side} {cpus}" for side, cpus in sides.items() if cpus)


def _list_cpus(table: Table) -> list[Table]:
    return [holder["cpu"] for holder in (table, *table["variant"]) if "cpu" in holder]


def _shrink_cpus(cpu: Table, most: int, available: list[int]) -> Table:
    if "count" in cpu:
        return (
            {"count": max(1, int(cpu["count"] * len(available) / most))}
            if most > len(available)
            else cpu
        )
    if not _collect_cpu_numbers(Cpu(**cpu)) - set(available):
        return cpu
    if len(cpu) < 2 or len(available) < 2:
        return {side: format_cpus(set(available)) for side in cpu}
    server, client = (len(parse_cpus(cpu[side])) for side in ("server", "client"))
    share = min(len(available) - 1, max(1, round(len(available) * server / (server + client))))
    return {
        "server": format_cpus(set(available[:share])),
        "client": format_cpus(set(available[share:])),
    }


def _collect_cpu_numbers(cpu: Cpu) -> set[int]:
    return {n for text in (cpu.server, cpu.client) if text for n in parse_cpus(text)}


def _drop_identical_variants(table: Table) -> Table:
    kept: dict[str, Table] = {}
    stays = {}
    for variant in table["variant"]:
        definition = json.dumps(
            {k: v for k, v in variant.items() if k not in _WORDS}, sort_keys=True
        )
        stays[variant["name"]] = kept.setdefault(definition, variant)["name"]
    return table | {"variant": list(kept.values()), "baseline": stays[table["baseline"]]}
