"""Decide in which metrics of a first campaign another can be pooled with it, and why not in the
others. Pure.
"""

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import (
    Pairing,
    format_difference,
    pair_campaigns,
)
from dballoc.analysis.tables.baseline_comparison import Metric, list_metrics


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
    if metric.design == "duet":
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
