"""Compare variants: from a campaign's rows to one logarithm a block, and from these to a ratio."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.measures import IDLE, Metric
from dballoc.analysis.statistics.duet_slices import compute_block_logs
from dballoc.analysis.statistics.moderated_variance import Variance
from dballoc.analysis.statistics.ratio_interval import Ratio, compute_ratio


@dataclass(frozen=True, kw_only=True)
class Values:
    """What a campaign measured of one measure: ``logs`` of the values by variant, and by block and
    role. The other variants are relative to the mean of the baseline's two ``roles``.

    A duet's values are relative to the baseline that was loaded at the same time, whose own
    logarithm is 0.
    """

    logs: Mapping[str, Mapping[tuple[int, str], float]]
    baseline: str
    roles: tuple[str, str]

    def average_blocks(self, variant: str) -> dict[int, float]:
        """Return one logarithm a block, the mean of the baseline's runs that are there."""
        roles = dict.fromkeys(self.roles) if variant == self.baseline else ("V",)
        blocks: dict[int, list[float]] = {}
        for (block, role), log in sorted(self.logs.get(variant, {}).items()):
            if role in roles:
                blocks.setdefault(block, []).append(log)
        return {block: math.fsum(logs) / len(logs) for block, logs in blocks.items()}

    def list_ratios(self, variant: str, baseline: str) -> list[float]:
        """Return one ln(variant ÷ baseline) a block. A block without one of the runs of the
        campaign's baseline is left out where that is what the variant is compared with; of the
        baseline and itself they are ln(A2 ÷ A1), the A/A floor.
        """
        if baseline != self.baseline:
            return subtract_blocks(self.average_blocks(variant), self.average_blocks(baseline))
        compared, role = self.logs.get(variant, {}), "V" if variant != baseline else "A2"
        of_baseline = self.logs.get(baseline, {})
        first, second = self.roles if variant != baseline else ("A1", "A1")
        return [
            compared[block, role] - (of_baseline[block, first] + of_baseline[block, second]) / 2
            for block in sorted({block for block, _ in compared})
            if (block, role) in compared
            and (block, first) in of_baseline
            and (block, second) in of_baseline
        ]


def compare(
    values: Values,
    variant: str,
    baseline: str,
    confidence: float,
    variance: Variance | None = None,
) -> Ratio | None:
    """Return variant ÷ baseline; None where no block has both. ``variance``: the moderated one."""
    logs = values.list_ratios(variant, baseline)
    return compute_ratio(logs, confidence, variance) if logs else None


def subtract_blocks(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """Return the differences of two variants' logarithms in the blocks that have both."""
    return [first[block] - second[block] for block in sorted(first.keys() & second.keys())]


def read_values(campaign: Campaign, metric: Metric) -> Values:
    """Read a campaign's values of a metric. With a server start for each level, the highest value
    of the starts and the idle RSS after the highest level count; with one for each workload, the
    highest of both.
    """
    measure = metric.measure
    if metric.design.is_paired:
        return collect_duet_values(campaign, compute_block_logs(campaign, workload=metric.workload))
    if metric.workload is None:
        rows = campaign.good
        if measure.name == IDLE.name and campaign.experiment.levels == "fresh":
            rows = rows.filter(pl.col("level") == max(campaign.experiment.threads))
        return collect_values(campaign, rows, measure.trial)
    rows = campaign.levels.filter(
        (pl.col("workload") == metric.workload) & (pl.col("threads") == metric.threads)
    )
    return collect_values(campaign, rows, measure.levels)


def collect_values(campaign: Campaign, rows: pl.DataFrame, column: str) -> Values:
    """Collect values from rows with block, variant and role. Only what is above zero has a
    logarithm.
    """
    best = (
        rows.filter(pl.col(column) > 0)
        .group_by("variant", "block", "role")
        .agg(pl.col(column).cast(pl.Float64).max())
    )
    logs: dict[str, dict[tuple[int, str], float]] = {}
    for variant, block, role, value in best.iter_rows():
        logs.setdefault(variant, {})[block, role] = math.log(value)
    return Values(logs=logs, baseline=campaign.experiment.baseline, roles=campaign.baseline_roles)


def collect_duet_values(campaign: Campaign, rows: pl.DataFrame) -> Values:
    """Collect values from the rows of
    :func:`dballoc.analysis.statistics.duet_slices.compute_block_logs`.
    """
    baseline = campaign.experiment.baseline
    logs: dict[str, dict[tuple[int, str], float]] = {
        baseline: {(block, "A1"): 0.0 for block in rows["block"]}
    }
    for variant, block, role, log in rows.select("variant", "block", "role", "log").iter_rows():
        logs.setdefault(variant, {})[block, role] = log
    return Values(logs=logs, baseline=baseline, roles=("A1", "A1"))
