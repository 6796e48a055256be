"""Compare any two variants with each other, not only with the baseline. Descriptive, outside the
declared family.
"""

from itertools import combinations

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.statistics import duet_slices
from dballoc.analysis.statistics.ratio_interval import compute_ratio
from dballoc.analysis.tables.level_curves import CONFIDENCE, compute_levels
from dballoc.experiment.designs import Design

_SCHEMA = {
    "first": pl.String,
    "second": pl.String,
    "measure": pl.String,
    "workload": pl.String,
    "ratio": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}


def compare_all_pairs(campaign: Campaign) -> pl.DataFrame:
    """Return one row a pair of variants and measure: ``first`` ÷ ``second`` as ``ratio`` with
    ``low``, ``high`` (95 %; null below two blocks) and ``n`` blocks. The solo design has
    ``rss_peak`` (workload null) and ``tps`` at the highest level of each ``workload``, with the
    baseline's two runs of a block averaged first. The duet has ``cpu`` per transaction, where two
    variants are compared through the baseline that ran beside each. Replays have ``rss_peak`` and
    ``cpu`` per event.
    """
    rows = []
    if Design.SOLO in campaign.designs:
        rows += _compare_pairs(
            campaign, _collect_solo_logs(campaign.good, "rss_peak"), "rss_peak", None
        )
        top = compute_levels(campaign).filter(pl.col("threads") == max(campaign.experiment.threads))
        column, measure = ("cpu_per_op", "cpu") if campaign.is_replay else ("tps", "tps")
        for workload in campaign.experiment.workloads:
            rows += _compare_pairs(
                campaign,
                _collect_solo_logs(top.filter(pl.col("workload") == workload), column),
                measure,
                workload,
            )
    if Design.DUET in campaign.designs:
        played = duet_slices.compute_block_logs(campaign)
        for workload in campaign.experiment.workloads:
            rows += _compare_pairs(
                campaign,
                _collect_duet_logs(campaign, played.filter(pl.col("workload") == workload)),
                "cpu",
                workload,
            )
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _compare_pairs(
    campaign: Campaign, logs: dict[str, dict[int, float]], measure: str, workload: str | None
) -> list[tuple]:
    rows = []
    for first, second in combinations(campaign.names, 2):
        first_logs, second_logs = logs.get(first, {}), logs.get(second, {})
        if both := sorted(first_logs.keys() & second_logs.keys()):
            first_to_second = compute_ratio(
                [first_logs[b] - second_logs[b] for b in both], CONFIDENCE
            )
            rows.append(
                (
                    first,
                    second,
                    measure,
                    workload,
                    first_to_second.estimate,
                    first_to_second.low,
                    first_to_second.high,
                    first_to_second.blocks,
                )
            )
    return rows


def _collect_duet_logs(campaign: Campaign, rows: pl.DataFrame) -> dict[str, dict[int, float]]:
    """Return logarithms by variant and block, each relative to the baseline beside it; the
    baseline's are 0.
    """
    logs: dict[str, dict[int, float]] = {
        campaign.experiment.baseline: dict.fromkeys(rows["block"], 0.0)
    }
    for variant, block, value in (
        rows.filter(pl.col("role") == "V").select("variant", "block", "log").iter_rows()
    ):
        logs.setdefault(variant, {})[block] = value
    return logs


def _collect_solo_logs(rows: pl.DataFrame, measure: str) -> dict[str, dict[int, float]]:
    """Return logarithms by variant and block. With a start for each level, the highest value of a
    block's starts counts.
    """
    values = (
        rows.filter(pl.col(measure) > 0)
        .group_by("variant", "role", "block")
        .agg(pl.col(measure).cast(pl.Float64).max().log())
        .group_by("variant", "block")
        .agg(pl.col(measure).mean())
    )
    logs: dict[str, dict[int, float]] = {}
    for variant, block, value in values.iter_rows():
        logs.setdefault(variant, {})[block] = value
    return logs
