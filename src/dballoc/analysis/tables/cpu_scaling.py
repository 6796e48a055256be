"""Compute throughput against the number of CPUs, for experiments whose variants differ in it. A
line is the variants that are the same but for their CPUs.
"""

import json
import string
from itertools import takewhile

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.tables import level_curves
from dballoc.experiment.model import Experiment, Variant

BEST = "best"


def group_by_cpus(experiment: Experiment) -> dict[int, list[str]]:
    """Return the variants by their number of CPUs, lowest first; empty unless there are several
    numbers.
    """
    counts: dict[int, list[str]] = {}
    for variant in experiment.variant:
        if (count := experiment.cpu_of(variant).count) is not None:
            counts.setdefault(count, []).append(variant.name)
    return dict(sorted(counts.items())) if len(counts) > 1 else {}


def name_lines(experiment: Experiment) -> dict[str, str]:
    """Return the name of the line that each variant is on, for those with a number of CPUs: what
    the names of its variants have in common, ``glibc`` of ``glibc_4cpu`` and ``glibc_8cpu``, else
    the first one's.
    """
    lines: dict[str, list[str]] = {}
    for variant in experiment.variant:
        if experiment.cpu_of(variant).count is not None:
            lines.setdefault(_describe_but_cpus(variant), []).append(variant.name)
    names: dict[str, str] = {}
    for members in lines.values():
        # Of x1 and x16 the common beginning has a digit of the numbers of CPUs.
        common = _find_common_beginning(members).rstrip(string.digits).rstrip("._+=@-")
        other_names = {v.name for v in experiment.variant} - set(members) | set(names.values())
        if len(members) == 1 or not common or common in other_names:
            common = members[0]
        names |= dict.fromkeys(members, common)
    return names


def _find_common_beginning(names: list[str]) -> str:
    places = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in places)


def _describe_but_cpus(variant: Variant) -> str:
    table = variant.model_dump(mode="json", exclude={"name", "cpu", "stands_for"})
    return json.dumps(table, sort_keys=True)


def average_throughput(campaign: Campaign, level: int | str) -> pl.DataFrame:
    """Return one row a line, workload and number of CPUs: ``variant`` (the line), ``cpus``,
    ``mean`` transactions per second with a 95 % t interval over blocks (``low``, ``high``: null
    below two blocks), ``n`` blocks, and ``threads``, the level. ``level``: a number of clients, or
    BEST for the level where that variant's mean is highest. Empty unless the variants have several
    numbers of CPUs.
    """
    experiment, lines = campaign.experiment, name_lines(campaign.experiment)
    cpus = {v: count for count, names in group_by_cpus(experiment).items() for v in names}
    rows = level_curves.average_levels(campaign).filter(
        (pl.col("measure") == "tps") & pl.col("variant").is_in(list(cpus))
    )
    if level == BEST:
        rows = rows.sort("mean", descending=True).unique(
            ["variant", "workload"], keep="first", maintain_order=True
        )
    else:
        rows = rows.filter(pl.col("threads") == level)
    order = {name: place for place, name in enumerate(campaign.names)}
    return (
        rows.with_columns(
            cpus=pl.col("variant").replace_strict(cpus, return_dtype=pl.Int64),
            place=pl.col("variant").replace_strict(order, return_dtype=pl.Int64),
            line=pl.col("variant").replace_strict(lines, return_dtype=pl.String),
        )
        .sort("workload", "place")
        .drop("variant", "place", "measure")
        .rename({"line": "variant"})
    )
