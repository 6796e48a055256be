"""Any two variants against each other, not only against the baseline. Descriptive, outside the
declared family.
"""

from itertools import combinations

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.statistics import duet_slices
from dballoc.analysis.statistics.ratio_interval import ratio
from dballoc.analysis.tables.level_curves import CONFIDENCE, levels

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


def pairs(campaign: Campaign) -> pl.DataFrame:
    """One row a pair of variants and measure: ``first`` ÷ ``second`` as ``ratio`` with ``low``,
    ``high`` (95 %; null below two blocks) and ``n`` blocks. Measures: of the solo design
    ``rss_peak`` (workload null) and ``tps`` at the highest level of each ``workload``, the
    baseline's two runs of a block averaged first; of the duet ``cpu`` per transaction, in which two
    variants meet through the baseline that each had beside it.
    """
    found = []
    if "solo" in campaign.designs:
        found += _all(campaign, _logs(campaign.good, "rss_peak"), "rss_peak", None)
        top = levels(campaign).filter(pl.col("threads") == max(campaign.experiment.threads))
        for workload in campaign.experiment.workloads:
            found += _all(
                campaign, _logs(top.filter(pl.col("workload") == workload), "tps"), "tps", workload
            )
    if "duet" in campaign.designs:
        played = duet_slices.blocks(campaign)
        for workload in campaign.experiment.workloads:
            found += _all(
                campaign,
                _to_baseline(campaign, played.filter(pl.col("workload") == workload)),
                "cpu",
                workload,
            )
    return pl.DataFrame(found, schema=_SCHEMA, orient="row")


def _all(
    campaign: Campaign, logs: dict[str, dict[int, float]], measure: str, workload: str | None
) -> list[tuple]:
    found = []
    for first, second in combinations(campaign.names, 2):
        mine, others = logs.get(first, {}), logs.get(second, {})
        if both := sorted(mine.keys() & others.keys()):
            r = ratio([mine[b] - others[b] for b in both], CONFIDENCE)
            low, high = (r.low, r.high) if r.blocks > 1 else (None, None)
            found.append((first, second, measure, workload, r.estimate, low, high, r.blocks))
    return found


def _to_baseline(campaign: Campaign, rows: pl.DataFrame) -> dict[str, dict[int, float]]:
    """Logarithms by variant and block, each relative to its own baseline: the baseline's
    own are 0.
    """
    logs: dict[str, dict[int, float]] = {
        campaign.experiment.baseline: dict.fromkeys(rows["block"], 0.0)
    }
    for variant, block, value in (
        rows.filter(pl.col("role") == "V").select("variant", "block", "log").iter_rows()
    ):
        logs.setdefault(variant, {})[block] = value
    return logs


def _logs(rows: pl.DataFrame, measure: str) -> dict[str, dict[int, float]]:
    """Logarithms by variant and block. With a start for each level, the highest of a block's starts
    counts.
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
