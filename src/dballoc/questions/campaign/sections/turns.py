"""The report's section on turns: throughput with the whole machine, and its blocks."""

import polars as pl

from dballoc.document.charts import Variants
from dballoc.document.model import Section, Table
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import count, number
from dballoc.questions.campaign.sections.block_ratios import draw_block_ratios
from dballoc.questions.compare import values
from dballoc.questions.compare.baseline_comparison import Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.ratios_as_text import format_ratio
from dballoc.questions.statistics.ratio_interval import compute_ratio


def make_turns_section(
    campaign: Campaign, comparisons: Comparisons, variants: Variants, each: bool = True
) -> Section:
    """Return the section on turns; ``each``: with a chart of each workload's blocks."""
    block_logs = values.compute_turn_logs(campaign)
    metrics = [m for m in comparisons.metrics if m.design is Design.TURNS]
    return Section(
        key=Design.TURNS,
        title="Throughput in turns",
        text=[_describe_turns(campaign)],
        figures=[
            draw_block_ratios(
                block_logs, metric, campaign.names, variants, comparisons.confidence(metric)
            )
            for metric in metrics
            if each
        ],
        tables=[_tabulate_throughput(campaign, block_logs)],
    )


def _describe_turns(campaign: Campaign) -> str:
    facts, clients = campaign.facts.turns, max(campaign.experiment.threads)
    rounds = values.sum_turns(campaign)["rounds"].to_list()
    if facts.in_pairs:
        alive = "A variant's server and a baseline's are alive at once"
    else:
        alive = "All servers are alive at once"
    played = ""
    if rounds:
        least, most = min(rounds), max(rounds)
        turns = count(most, "turn") if least == most else f"{least} to {count(most, 'turn')}"
        played = f" A server had {turns} that count in a block."
    return (
        f"{alive}, each with {count(clients, 'client')}; one at a time has the whole machine, for "
        f"{number(facts.seconds)} s, while the others are stopped.{played}"
    )


def _tabulate_throughput(campaign: Campaign, block_logs: pl.DataFrame) -> Table:
    """Return transactions per second, and their ratios."""
    rates = (
        values.sum_turns(campaign)
        .group_by("workload", "variant")
        .agg(tps=pl.col("transactions").sum() / pl.col("seconds").sum())
    )
    rows = []
    for workload in campaign.experiment.workloads:
        for name in campaign.names:
            rate = rates.filter(workload=workload, variant=name)
            logs = block_logs.filter(workload=workload, variant=name)["log"].to_list()
            if rate.is_empty() or not logs:
                continue
            ratio = compute_ratio(logs)
            label = f"{name}, A2 ÷ A1" if name == campaign.experiment.baseline else name
            interval = format_ratio(ratio.estimate, ratio.low, ratio.high)
            rows.append([workload, label, number(rate["tps"][0]), interval, str(len(logs))])
    return Table(
        title="Throughput in turns",
        columns=["workload", "variant", "transactions/s", "ratio", "blocks"],
        rows=rows,
        caption="Ratios with plain 95 % intervals; those that decide stand under the verdicts.",
        heads=2,
    )
