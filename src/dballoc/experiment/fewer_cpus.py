"""An experiment's CPUs on a machine that has fewer. Pure."""

import json
from collections.abc import Collection
from typing import Any

from dballoc.experiment.cpu_list import format_cpus, parse_cpus
from dballoc.experiment.model import Cpu, Experiment

Table = dict[str, Any]


def on_fewer(table: Table, have: Collection[int]) -> Table:
    """An experiment's table with its CPUs taken from ``have``, where it asks for others.

    Sets of server and client keep their proportion; with one CPU they share it. Numbers of CPUs
    shrink so that the highest is all of them; of variants that differ by their number alone and
    come out alike, the first stays.
    """
    most = max((cpu["count"] for cpu in _cpus(table) if "count" in cpu), default=0)
    result = table | {"variant": [dict(v) for v in table["variant"]]}
    for holder in (result, *result["variant"]):
        if "cpu" in holder:
            holder["cpu"] = _fewer(holder["cpu"], most, sorted(have))
    return _without_twins(result) if most > len(have) else result


def in_words(experiment: Experiment, have: Collection[int]) -> str | None:
    """How an experiment asks for CPUs that are not here, ``server 0-7, client 8-15``, ``4, 8, 16,
    32``; None if all are.
    """
    every = [experiment.cpu, *(v.cpu for v in experiment.variant if v.cpu)]
    counts = sorted({cpu.count for cpu in every if cpu.count})
    if counts and counts[-1] > len(have):
        return ", ".join(map(str, counts))
    beyond = next((cpu for cpu in every if _sets(cpu) - set(have)), None)
    if beyond is None:
        return None
    sides = {"server": beyond.server, "client": beyond.client}
    return ", ".join(f"{side} {cpus}" for side, cpus in sides.items() if cpus)


def _cpus(table: Table) -> list[Table]:
    return [holder["cpu"] for holder in (table, *table["variant"]) if "cpu" in holder]


def _fewer(cpu: Table, most: int, have: list[int]) -> Table:
    if "count" in cpu:
        return {"count": max(1, int(cpu["count"] * len(have) / most))} if most > len(have) else cpu
    if not _sets(Cpu(**cpu)) - set(have):
        return cpu
    if len(cpu) < 2 or len(have) < 2:
        return {side: format_cpus(set(have)) for side in cpu}
    server, client = (len(parse_cpus(cpu[side])) for side in ("server", "client"))
    share = min(len(have) - 1, max(1, round(len(have) * server / (server + client))))
    return {"server": format_cpus(set(have[:share])), "client": format_cpus(set(have[share:]))}


def _sets(cpu: Cpu) -> set[int]:
    return {n for text in (cpu.server, cpu.client) if text for n in parse_cpus(text)}


def _without_twins(table: Table) -> Table:
    kept: dict[str, Table] = {}
    stays = {}
    for variant in table["variant"]:
        what = json.dumps(
            {k: v for k, v in variant.items() if k not in ("name", "stands_for")}, sort_keys=True
        )
        stays[variant["name"]] = kept.setdefault(what, variant)["name"]
    return table | {"variant": list(kept.values()), "baseline": stays[table["baseline"]]}
