"""Judge a campaign of identical variants: whether they are seen as identical, and what its scatter
says about later campaigns on this host.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.questions.compare.baseline_comparison import Comparison, compare_with_baseline
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.procedure import ErrorShare, declare_procedure, declare_shares
from dballoc.questions.compare.verdict import Verdict
from dballoc.questions.statistics.detectable_difference import (
    Need,
    Scatter,
    compute_detectable,
    compute_half_width,
    compute_need,
    pool_scatter,
)
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE, count_common_freedom

DIFFERENCES = (0.01, 0.02, 0.05)


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
    block_seconds: float
    scatter: Scatter | None = None
    half_width: float = math.inf
    detectable: float = math.inf
    needs: list[Need] = field(default_factory=list)

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
        if self.blocks < 2 or not self.twin.judged:
            return None
        return self.twin.verdict not in (Verdict.HIGHER, Verdict.LOWER)


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What a host resolves. ``seconds``: the time that the campaign has taken so far; ``disturbed``
    of ``blocks`` were counted although disturbed; ``faulty`` as in Comparisons. ``variants``: of
    the campaigns that half-widths and needs are about, the baseline counted; ``promised_seconds``:
    the time that as many blocks of theirs take.
    """

    baseline: str
    twin: str
    metrics: list[MetricResolution]
    seconds: float
    blocks: int
    disturbed: int
    faulty: dict[str, tuple[int, int]]
    variants: int = 2
    promised_seconds: float | None = None

    @property
    def differing(self) -> list[MetricResolution]:
        """The metrics in which the identical variants appear to differ."""
        return [m for m in self.metrics if m.holds is False]


def compute_resolution(campaign: Campaign, variants: int = 2) -> Resolution:
    """Compute what a campaign of twins (dballoc.cli.verbs.aa.build_twins) shows. ``variants``: how
    many the campaigns have, the baseline counted, whose intervals are promised.
    """
    comparisons = compare_with_baseline(campaign)
    twin, baseline = campaign.names[1], campaign.experiment.baseline
    seconds: dict[str, float] = {
        design: _sum_seconds(campaign.list_attempts(design)) for design in Design
    }
    shares = declare_shares(campaign.judged, variants, len(campaign.experiment.workloads))
    compared = [*comparisons.family, *comparisons.floor, *comparisons.descriptive]
    resolved = []
    for metric in dict.fromkeys(c.metric for c in compared):
        of_metric = {c.variant: c for c in compared if c.metric == metric}
        blocks = _select_counted_blocks(campaign, metric.design).height
        per_block = seconds[metric.design] / blocks if blocks else math.nan
        resolved.append(
            _resolve_metric(
                of_metric[twin],
                of_metric[baseline],
                shares,
                variants,
                per_block * _scale_block(metric.design, variants),
            )
        )
    last = pl.concat(
        [_select_counted_blocks(campaign, design) for design in campaign.facts.designs]
    )
    disturbed = last.filter(pl.col("disturbed").is_not_null()).height
    pilot = _sum_pilot_seconds(campaign)
    return Resolution(
        baseline=baseline,
        twin=twin,
        metrics=resolved,
        seconds=sum(seconds[design] for design in campaign.facts.designs) + pilot,
        blocks=last.height,
        disturbed=disturbed,
        faulty=comparisons.faulty,
        variants=variants,
        promised_seconds=pilot
        + sum(
            seconds[design] * _scale_block(design, variants) for design in campaign.facts.designs
        ),
    )


def _resolve_metric(
    twin: Comparison,
    floor: Comparison,
    shares: Mapping[str, ErrorShare],
    variants: int,
    block_seconds: float,
) -> MetricResolution:
    """Return what campaigns of that many variants resolve; a metric that is not judged has a plain
    interval. ``shares``: what their measures may err.
    """
    metric = twin.metric
    to_variant = math.sqrt(metric.design.traits.floor_to_variant)
    parts = [
        (c.ratio.own_scatter * factor, c.ratio.blocks - 1)
        for c, factor in ((twin, 1.0), (floor, to_variant))
        if c.ratio and c.ratio.blocks > 1
    ]
    scatter = pool_scatter(parts)
    unresolved = MetricResolution(twin=twin, floor=floor, block_seconds=block_seconds)
    if scatter is None or twin.ratio is None:
        return unresolved

    def find_confidence(blocks: int) -> float:
        if metric.question is None:
            return DESCRIPTIVE_CONFIDENCE
        return declare_procedure(blocks, shares).levels[metric.measure.name]

    n, borrowed = twin.ratio.blocks, 0
    if metric.question:
        # From the variants but the baseline, and its A/A pair.
        borrowed = count_common_freedom(variants, shares[metric.measure.name].of_each)
    level = find_confidence(n)
    return replace(
        unresolved,
        scatter=scatter,
        half_width=compute_half_width(scatter.sd, n, level, borrowed),
        detectable=compute_detectable(scatter.sd, n, level, borrowed),
        needs=[compute_need(scatter, size, find_confidence, borrowed) for size in DIFFERENCES],
    )


def _scale_block(design: str, variants: int) -> float:
    """Return how many times as long a block of that many variants takes as one of twins."""
    return Design(design).count_trials(variants) / Design(design).count_trials(2)


def _select_counted_blocks(campaign: Campaign, design: str) -> pl.DataFrame:
    """Return the attempt that counts, of each block."""
    return campaign.list_attempts(design).sort("attempt").group_by("block").last()


def _sum_seconds(rows: pl.DataFrame) -> float:
    """Return the seconds of all rows: of blocks, all attempts."""
    return float((rows["ended"] - rows["started"]).sum())


def _sum_pilot_seconds(campaign: Campaign) -> float:
    """Return the seconds of the pilot. Both servers of a start run at the same time."""
    starts = campaign.pilot.group_by("position").agg(pl.col("started").min(), pl.col("ended").max())
    return _sum_seconds(starts)
