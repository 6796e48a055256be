"""Judge a campaign of identical variants: whether they are seen as identical, and what its scatter
says about later campaigns on this host.
"""

import math
from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.sequential_test import Procedure, declare_procedure
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.statistics.detectable_difference import (
    Need,
    Scatter,
    compute_detectable,
    compute_half_width,
    compute_need,
    pool_scatter,
)
from dballoc.analysis.tables.baseline_comparison import (
    Comparison,
    Comparisons,
    Metric,
    compare_with_baseline,
)

DIFFERENCES = (0.01, 0.02, 0.05)

# A solo variant is compared with the mean of the baseline's two runs, A2 with A1 alone: if every
# run has the variance v, these logarithms have 3/2 v and 2 v, and do not correlate.
_FLOOR_TO_VARIANT = {"solo": math.sqrt(1.5 / 2), "duet": 1.0}


@dataclass(frozen=True, kw_only=True)
class MetricResolution:
    """What was found in one metric. ``twin``: the identical variant against the baseline;
    ``floor``: the baseline's second run against its first. ``scatter``: pooled from both, as the
    standard deviation of a variant's ln ratio from block to block; None below two blocks.
    ``half_width`` and ``detectable`` are relative, with the blocks so far; ``block_seconds``: the
    time that one block took.
    """

    twin: Comparison
    floor: Comparison
    scatter: Scatter | None
    half_width: float
    detectable: float
    needs: list[Need]
    block_seconds: float

    @property
    def metric(self) -> Metric:
        """What was measured."""
        return self.twin.metric

    @property
    def blocks(self) -> int:
        """The number of blocks with a figure."""
        return self.twin.ratio.blocks if self.twin.ratio else 0

    @property
    def holds(self) -> bool | None:
        """Whether the twin's interval contains 1; None without an interval. Over all metrics and
        looks together, at most 5 % of campaigns have one that does not, on a host whose noise
        cancels within blocks. Judging by the floor too would double that.
        """
        if self.blocks < 2:
            return None
        return self.twin.verdict not in (Verdict.HIGHER, Verdict.LOWER)


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What a host resolves. ``seconds``: the time that the campaign has taken so far; ``disturbed``
    of ``blocks`` were counted although disturbed; ``faulty`` as in Comparisons.
    """

    baseline: str
    twin: str
    metrics: list[MetricResolution]
    seconds: float
    blocks: int
    disturbed: int
    faulty: dict[str, tuple[int, int]]

    @property
    def differing(self) -> list[MetricResolution]:
        """The metrics in which the identical variants appear to differ."""
        return [m for m in self.metrics if m.holds is False]


def compute_resolution(campaign: Campaign) -> Resolution:
    """Compute what a campaign of twins (dballoc.experiment.identical_variants) shows."""
    comparisons = compare_with_baseline(campaign)
    twin = campaign.names[1]
    seconds = {"solo": _sum_seconds(campaign.block), "duet": _sum_seconds(campaign.duet_block)}
    resolved = []
    for metric in comparisons.metrics:
        floor = next(c for c in comparisons.floor if c.metric == metric)
        blocks = _select_counted_blocks(campaign, metric.design).height
        per_block = seconds[metric.design] / blocks if blocks else math.nan
        resolved.append(
            _resolve_metric(comparisons, comparisons.find(twin, metric), floor, per_block)
        )
    last = pl.concat([_select_counted_blocks(campaign, design) for design in campaign.designs])
    disturbed = last.filter(pl.col("disturbed").is_not_null()).height
    spent = sum(seconds[design] for design in campaign.designs) + _sum_pilot_seconds(campaign)
    return Resolution(
        baseline=campaign.experiment.baseline,
        twin=twin,
        metrics=resolved,
        seconds=spent,
        blocks=last.height,
        disturbed=disturbed,
        faulty=comparisons.faulty,
    )


def _resolve_metric(
    comparisons: Comparisons, twin: Comparison, floor: Comparison, block_seconds: float
) -> MetricResolution:
    procedure = comparisons.procedures[twin.metric.design]
    parts = [
        (c.ratio.scatter * factor, c.ratio.blocks - 1)
        for c, factor in ((twin, 1.0), (floor, _FLOOR_TO_VARIANT[twin.metric.design]))
        if c.ratio and c.ratio.blocks > 1
    ]
    scatter = pool_scatter(parts)
    if scatter is None or twin.ratio is None:
        return MetricResolution(
            twin=twin,
            floor=floor,
            scatter=None,
            half_width=math.inf,
            detectable=math.inf,
            needs=[],
            block_seconds=block_seconds,
        )
    n, level = twin.ratio.blocks, procedure.confidence
    needs = [
        compute_need(scatter, difference, lambda blocks: _declare_confidence(procedure, blocks))
        for difference in DIFFERENCES
    ]
    reach, shown = (
        compute_half_width(scatter.sd, n, level),
        compute_detectable(scatter.sd, n, level),
    )
    return MetricResolution(
        twin=twin,
        floor=floor,
        scatter=scatter,
        half_width=reach,
        detectable=shown,
        needs=needs,
        block_seconds=block_seconds,
    )


def _declare_confidence(procedure: Procedure, blocks: int) -> float:
    """Return the level that a campaign of that many blocks declares for the same comparisons. It
    may have more looks.
    """
    return declare_procedure(blocks, procedure.family).confidence


def _select_counted_blocks(campaign: Campaign, design: str) -> pl.DataFrame:
    """Return the attempt that counts, of each block."""
    rows = campaign.block if design == "solo" else campaign.duet_block
    return rows.sort("attempt").group_by("block").last()


def _sum_seconds(rows: pl.DataFrame) -> float:
    """Return the seconds of all rows: of blocks, all attempts."""
    return float((rows["ended"] - rows["started"]).sum())


def _sum_pilot_seconds(campaign: Campaign) -> float:
    """Return the seconds of the pilot. Both servers of a start run at the same time."""
    starts = campaign.pilot.group_by("position").agg(pl.col("started").min(), pl.col("ended").max())
    return _sum_seconds(starts)
