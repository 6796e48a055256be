"""The report's section on the duet: cost of a transaction, its blocks, and what the pilot found."""

import math

import polars as pl

from dballoc.document.charts import (
    Variants,
)
from dballoc.document.model import Section, Table
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import NOTHING, count, number, percent
from dballoc.questions.campaign.sections.block_ratios import draw_block_ratios
from dballoc.questions.compare import values
from dballoc.questions.compare.baseline_comparison import Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import CPU, Metric
from dballoc.questions.compare.ratios_as_text import format_ratio
from dballoc.questions.statistics.ratio_interval import compute_ratio
from dballoc.store.facts import DuetFacts


def make_duet_section(
    campaign: Campaign, comparisons: Comparisons, variants: Variants, each: bool = True
) -> Section:
    """Return the section on the duet; ``each``: with a chart of each workload's blocks."""
    facts = campaign.facts.duet
    block_logs = values.compute_block_logs(campaign)
    confidence = max(
        comparisons.confidence(m) for m in comparisons.metrics if m.design == Design.DUET
    )
    pictured = campaign.experiment.workloads if each else []
    figures = [
        draw_block_ratios(
            block_logs,
            Metric(measure=CPU, workload=w, design=Design.DUET),
            campaign.names,
            variants,
            confidence,
        )
        for w in pictured
    ]
    tables = [
        _tabulate_costs(campaign, block_logs),
        *([_tabulate_pilot(facts)] if facts.components else []),
    ]
    return Section(
        key=Design.DUET,
        title="The cost of a transaction",
        text=[
            *_describe_duet(facts, is_of_hosts=bool(campaign.placement.height)),
            *_describe_pairs(campaign),
            *_describe_steal(campaign.slice),
        ],
        figures=figures,
        tables=tables,
    )


# Share of a slice's time that no quiet machine loses to its hypervisor.
_MUCH_STEAL = 0.05

_ESTIMATES = {
    "paired": "Estimate: the mean of what both servers showed at the same time, over pairs of "
    "swapped slices (paired).",
    "middle": "Estimate: the interquartile mean of what both servers showed at the same time, over "
    "all neighbouring slices (middle).",
    "undisturbed": "Estimate: on each half of the CPUs, a server's cheapest fifth of all "
    "quarter-seconds, when nothing else slowed that half down; then the mean of both halves "
    "(undisturbed).",
}


def _describe_duet(facts: DuetFacts, *, is_of_hosts: bool) -> list[str]:
    halves = " and ".join(facts.halves)
    apart = f", their clients on {' and '.join(facts.client_halves)}" if facts.client_halves else ""
    text = [
        "Duet: the baseline and one other server at the same time, each with "
        f"{count(facts.threads, 'client')}, on CPUs {halves} in turns{apart}. What is compared is "
        "the server's CPU time per transaction at half of the machine's width.",
        _ESTIMATES[facts.estimate],
    ]
    text += [f"{name} is not in the duet: {why}." for name, why in facts.left_out.items()]
    if plan := facts.plan:
        text.append(
            f"{_name_source(facts, is_of_hosts=is_of_hosts)}: {count(plan.pairs, 'pair')} of "
            f"slices of {number(plan.slice)} s in each block, the first "
            f"{number(plan.discard)} s of a slice left out, and "
            f"{count(plan.blocks, 'block')}; that was expected to give intervals of "
            f"±{percent(plan.half_width)}."
        )
    if scatter := facts.scatter:
        errors = " and ".join(f"{percent(value)} ({how})" for how, value in scatter.items())
        text.append(f"The pilot's starts, whose true ratio is 1, were off by {errors}.")
    return text


def _name_source(facts: DuetFacts, *, is_of_hosts: bool) -> str:
    """Return what the plan rests on."""
    if facts.scatter:
        return "Planned by the pilot's findings"
    if is_of_hosts:
        return "Planned without a pilot, which would be one host's"
    return "The pilot had faults, so the plan is the default one"


def _describe_pairs(campaign: Campaign) -> list[str]:
    """Return how many pairs of slices the blocks had: where the time is to be filled, they differ
    from those planned.
    """
    of_duet = campaign.slice.join(campaign.duet.select("trial"), on="trial", how="semi")
    pairs = [
        (last + 1) // 2
        for _, _, last in of_duet.group_by("trial", "workload").agg(pl.col("slice").max()).rows()
    ]
    if not pairs:
        return []
    least, most = min(pairs), max(pairs)
    played = count(most, "pair") if least == most else f"{least} to {count(most, 'pair')}"
    return [f"Played: {played} of slices of each workload beside each variant in a block."]


def _describe_steal(slices: pl.DataFrame) -> list[str]:
    """Return how much of the slices' time the hypervisor took; nothing if no slice says it."""
    stolen = slices["steal"].drop_nulls().to_list()
    if not stolen:
        return []
    much = sum(share > _MUCH_STEAL for share in stolen) / len(stolen)
    return [
        f"Steal: the hypervisor took {percent(math.fsum(stolen) / len(stolen))} of the CPUs' time "
        f"during the slices; {percent(much)} of them lost more than {percent(_MUCH_STEAL)}."
    ]


def _tabulate_costs(campaign: Campaign, cpu: pl.DataFrame) -> Table:
    """Return CPU per transaction and transactions per second, each side's own, and their ratios."""
    plain, time, each = (
        values.compute_block_logs(campaign, "paired"),
        values.compute_block_logs(campaign, "paired", "seconds"),
        values.compute_absolute_figures(campaign),
    )
    rows = []
    for workload in campaign.experiment.workloads:
        for name in campaign.names:
            same_cell = (pl.col("workload") == workload) & (pl.col("variant") == name)
            absolute = each.filter(same_cell)
            if not absolute.height:
                continue
            label = f"{name}, A2 ÷ A1" if name == campaign.experiment.baseline else name
            rows.append(
                [
                    workload,
                    label,
                    *(number(v) for v in absolute.select("cpu", "tps").row(0)),
                    _format_ratio(cpu.filter(same_cell)),
                    _format_ratio(plain.filter(same_cell)),
                    _format_ratio(time.filter(same_cell), -1),
                    str(cpu.filter(same_cell).height),
                ]
            )
    columns = [
        "workload",
        "variant",
        "CPU per transaction, µs",
        "transactions/s",
        f"CPU ratio ({values.read_declared_estimate(campaign)})",
        "CPU ratio (plain mean)",
        "throughput ratio (plain mean)",
        "blocks",
    ]
    caption = (
        "At half width. Ratios with plain 95 % intervals; those that decide stand under the "
        "verdicts."
    )
    return Table(
        title="Cost of a transaction", columns=columns, rows=rows, caption=caption, heads=2
    )


def _format_ratio(rows: pl.DataFrame, sign: int = 1) -> str:
    logs = [sign * log for log in rows["log"]]
    if not logs:
        return NOTHING
    r = compute_ratio(logs)
    return format_ratio(r.estimate, r.low, r.high)


def _tabulate_pilot(facts: DuetFacts) -> Table:
    """Return the components of scatter, each as a relative standard deviation."""
    rows = [
        [w, *(percent(math.expm1(getattr(c, k)), 2) for k in ("start", "slice", "piece", "halves"))]
        for w, c in facts.components.items()
    ]
    columns = [
        "workload",
        "from start to start",
        "from slice to slice",
        "within a slice",
        "difference of the halves",
    ]
    caption = (
        "Relative standard deviations of variant ÷ baseline, by nested analysis of variance, as "
        "far as the estimate leaves them; within a slice: between its first and second half. The "
        "last column is what swapping removes."
    )
    return Table(title="What the pilot found", columns=columns, rows=rows, caption=caption)
