"""Compare every variant with the baseline in the primary metrics, and the baseline with itself (the
A/A floor); define speed: one metric for each workload, and which direction is faster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from dballoc.experiment.designs import Design
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import CPU, IDLE, PEAK, Metric
from dballoc.questions.compare.procedure import (
    Procedure,
    declare_imported_shares,
    declare_procedure,
    declare_shares,
)
from dballoc.questions.compare.values import read_values
from dballoc.questions.compare.verdict import Verdict, judge_ratio
from dballoc.questions.statistics.ratio_interval import (
    DESCRIPTIVE_CONFIDENCE,
    Ratio,
    Variance,
    compute_bounds,
    compute_ratio,
    compute_variance,
    moderate_variances,
)
from dballoc.store.results import HOST_LOST


@dataclass(frozen=True)
class Comparison:
    """A variant against the baseline in one metric. ``ratio`` is None when no block has both;
    ``judged``: whether there may be a verdict.
    """

    variant: str
    metric: Metric
    ratio: Ratio | None
    judged: bool = True

    @property
    def verdict(self) -> Verdict:
        """The verdict by the interval; undecided without a ratio."""
        if not self.judged:
            return Verdict.NOT_JUDGED
        return judge_ratio(self.ratio)

    @property
    def bound(self) -> float | None:
        """How far the ratio may lie on the bad side, by its one-sided bound; None without one."""
        if self.ratio is None or self.ratio.bounds is None:
            return None
        return self.ratio.bounds.high if self.metric.better == "lower" else self.ratio.bounds.low


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """The declared ``family``, the baseline against itself (``floor``), and the procedure of each
    design. A variant with faults is compared in the blocks that it survived; it is in ``faulty``,
    and there is no verdict for it. ``descriptive``: comparisons without a verdict, the baseline's
    with itself among them, whose intervals are plain 95 % ones.
    """

    procedures: dict[str, Procedure]
    metrics: list[Metric]
    family: list[Comparison]
    floor: list[Comparison]
    faulty: dict[str, tuple[int, int]]
    descriptive: list[Comparison] = field(default_factory=list)

    @property
    def judged_once(self) -> bool:
        """Whether there is one look, where the campaign ends."""
        return any(procedure.judged_once for procedure in self.procedures.values())

    @property
    def baseline(self) -> str:
        """The variant that the others are compared with."""
        return self.floor[0].variant

    def confidence(self, metric: Metric) -> float:
        """Return the level of a metric's intervals."""
        if metric not in self.metrics:
            return DESCRIPTIVE_CONFIDENCE
        return self.procedures[metric.design].levels[metric.measure.name]

    def get_bound_level(self, metric: Metric) -> float | None:
        """Return the level of a metric's one-sided bounds; None where it has none."""
        if metric not in self.metrics:
            return None
        return self.procedures[metric.design].bound_levels.get(metric.measure.name)

    def find(self, variant: str, metric: Metric) -> Comparison:
        """Return the comparison of that variant in that metric; KeyError if there is none."""
        for comparison in self.family:
            if comparison.variant == variant and comparison.metric == metric:
                return comparison
        raise KeyError(variant, metric.key)


def list_metrics(campaign: Campaign) -> list[Metric]:
    """Return the metrics that variants are compared in: throughput at the highest level, peak and
    idle RSS; duet CPU per transaction. Idle RSS is not judged. Of a replay: CPU per event, peak
    and idle heap.
    """
    measures, workloads = campaign.measures, campaign.experiment.workloads
    speed = measures["cpu" if campaign.is_replay else "tps"]
    metrics = []
    if Design.DUET in campaign.facts.designs:
        metrics += [
            Metric(measure=measures["cpu"], workload=w, design=Design.DUET) for w in workloads
        ]
    design = speed.choose_design(campaign.facts.designs)
    if design:
        metrics += [
            Metric(
                measure=speed,
                workload=w,
                threads=find_top_level(campaign, w),
                design=design,
            )
            for w in workloads
        ]
    if Design.SOLO in campaign.facts.designs:
        metrics += [
            Metric(measure=m)
            for m in measures.values()
            if m.trial
            and (m.name != IDLE.name or campaign.experiment.time.idle)
            and not (campaign.imported and campaign.good[PEAK.trial].is_null().all())
        ]
    return metrics


def find_top_level(campaign: Campaign, workload: str) -> int:
    """Return the level at which a workload is judged: the highest of the experiment or, for
    imported results, of the workload.
    """
    if not campaign.imported:
        return max(campaign.experiment.threads)
    levels = campaign.step.filter(workload=workload)["threads"].to_list()
    return max(levels, default=max(campaign.experiment.threads))


def declare_procedures(campaign: Campaign) -> dict[str, Procedure]:
    """Return the procedure that was declared for each design at the start, after the blocks
    finished so far.
    """
    facts = campaign.facts
    variants, workloads = (
        campaign.experiment.count_compared() + 1,
        len(campaign.experiment.workloads),
    )
    variants += facts.compared_elsewhere
    if campaign.imported:
        measures = [metric.measure.name for metric in list_metrics(campaign)]
        shares = declare_imported_shares(variants, measures)
        blocks = campaign.blocks(Design.SOLO)
        once = declare_procedure(blocks, shares, judged_once=True, end_share=1.0)
        return {Design.SOLO: once}
    shares = declare_shares(campaign.judged, variants, workloads, len(facts.duet.left_out))
    return {
        d: declare_procedure(
            facts.planned_blocks[d],
            shares,
            facts.budget_looks.get(d, ()),
            judged_once=facts.measured_only,
        ).after(campaign.blocks(d))
        for d in facts.designs
    }


def compare_with_baseline(campaign: Campaign) -> Comparisons:
    """Compare the campaign's variants by its declared procedure."""
    declared = declare_procedures(campaign)
    all_metrics = list_metrics(campaign)
    judged = [
        m
        for m in all_metrics
        if m.question == "speed" or (m.question == "memory" and campaign.has_whole_heap)
    ]
    at_look = select_judged_blocks(campaign, declared)
    family: list[Comparison] = []
    floor: list[Comparison] = []
    descriptive: list[Comparison] = []
    for metric in all_metrics:
        if metric in judged:
            procedure = declared[metric.design]
            compared = _compare_in_metric(at_look, metric, procedure)
            for comparison in compared:
                is_floor = comparison.variant == campaign.experiment.baseline
                (floor if is_floor else family).append(comparison)
        else:
            descriptive += _describe_in_metric(at_look, metric)
    return Comparisons(
        procedures=declared,
        metrics=judged,
        family=family,
        floor=floor,
        faulty=count_faults(campaign),
        descriptive=descriptive,
    )


def select_judged_blocks(campaign: Campaign, procedures: Mapping[str, Procedure]) -> Campaign:
    """Return the campaign with the blocks of the last look that each design reached, in the order
    in which they were completed, or with all of them before the first look. Imported results
    have no looks.
    """
    if campaign.imported:
        return campaign
    judged = {
        design: list_first_blocks(
            campaign.list_attempts(design),
            procedure.reached or procedure.blocks,
        )
        for design, procedure in procedures.items()
    }
    return replace(
        campaign,
        trial=campaign.trial.filter(pl.col("block").is_in(judged.get(Design.SOLO, []))),
        duet=campaign.duet.filter(pl.col("block").is_in(judged.get(Design.DUET, []))),
        rotation=campaign.rotation.filter(pl.col("block").is_in(judged.get(Design.TURNS, []))),
    )


def list_first_blocks(rows: pl.DataFrame, number: int) -> list[int]:
    """Return the blocks that were completed first. A block that was repeated keeps its place."""
    completed = rows.group_by("block").agg(pl.col("ended").min()).sort("ended", "block")
    return completed["block"].head(number).to_list()


def _compare_in_metric(
    campaign: Campaign, metric: Metric, procedure: Procedure
) -> list[Comparison]:
    """Compare every variant, and the baseline with itself, in a metric that is judged."""
    logs = {name: values for name, values in collect_logs(campaign, metric).items() if values}
    in_pairs = metric.design is Design.TURNS and campaign.facts.turns.in_pairs
    ratios = judge_logs(
        logs,
        metric,
        procedure,
        campaign.experiment.baseline,
        imported=campaign.imported,
        in_pairs=in_pairs,
    )
    is_judged = procedure.reached is not None
    return [Comparison(name, metric, ratios.get(name), is_judged) for name in campaign.names]


def judge_logs(
    logs: Mapping[str, Sequence[float]],
    metric: Metric,
    procedure: Procedure,
    baseline: str,
    *,
    imported: bool = False,
    in_pairs: bool = False,
) -> dict[str, Ratio]:
    """Return the ratio of each variant, and of the baseline's A/A pair, from their blocks'
    logarithms, with the interval and the bounds that the procedure gives after its blocks; with
    neither before its first look. ``imported``: results without an A/A pair whose variance could be
    borrowed; ``in_pairs``: each variant had a baseline's server of its own.
    """
    floor_to_variant = 1.0 if in_pairs else metric.design.traits.floor_to_variant
    share = procedure.shares.get(metric.measure.name)
    if share is None:  # Every variant is left out of the duet.
        ratios = {name: compute_ratio(values) for name, values in logs.items()}
    else:
        level, bound_level = (
            levels[metric.measure.name] for levels in (procedure.levels, procedure.bound_levels)
        )
        # What may be borrowed depends on the error: intervals and bounds have each their own.
        of_each, of_bound = (
            {} if imported else _moderate(logs, floor_to_variant, baseline, error)
            for error in (share.of_each, share.of_bound)
        )
        ratios = {
            name: replace(
                compute_ratio(values, level, of_each.get(name)),
                bounds=compute_bounds(values, bound_level, of_bound.get(name)),
            )
            for name, values in logs.items()
        }
    if procedure.reached is None:
        return {name: replace(r, interval=None, bounds=None) for name, r in ratios.items()}
    return ratios


def _describe_in_metric(campaign: Campaign, metric: Metric) -> list[Comparison]:
    logs = collect_logs(campaign, metric)
    return [
        Comparison(
            name,
            metric,
            compute_ratio(logs[name]) if logs.get(name) else None,
            judged=False,
        )
        for name in campaign.names
    ]


def _moderate(
    logs: Mapping[str, Sequence[float]], floor_to_variant: float, baseline: str, error: float
) -> dict[str, Variance]:
    """Return the moderated variance of each variant, and of the baseline's A/A pair, on the scale
    of each; ``error``: what one comparison may err.
    """
    scales = {baseline: floor_to_variant}
    variances = {name: compute_variance(values) for name, values in logs.items() if len(values) > 1}
    alike = {
        name: Variance(v.value * scales.get(name, 1.0), v.freedom) for name, v in variances.items()
    }
    return {
        name: Variance(v.value / scales.get(name, 1.0), v.freedom)
        for name, v in moderate_variances(alike, error).items()
    }


def collect_logs(campaign: Campaign, metric: Metric) -> dict[str, list[float]]:
    """Return the blocks' ln ratios by variant in any metric; the baseline's are those of the A/A
    pair.
    """
    values = read_values(campaign, metric)
    return {name: values.list_ratios(name, values.baseline) for name in campaign.names}


def count_faults(campaign: Campaign) -> dict[str, tuple[int, int]]:
    """Return, for each variant with faults, (trials with a fault, trials). Repeated blocks are
    included: a crash is not noise. Lost hosts are not: most have nothing to do with the variant
    that happened to run there; :mod:`dballoc.questions.compare.split_by_host` says which may have.
    """
    counts = (
        campaign.trials.filter(pl.col("fault").ne_missing(HOST_LOST))
        .group_by("variant")
        .agg((pl.col("outcome") == "fault").sum().alias("k"), pl.len())
    )
    return {name: (k, n) for name, k, n in counts.iter_rows() if k}


def choose_speed_metrics(primary: Sequence[Metric]) -> list[Metric]:
    """Return one metric a workload: the server's CPU per transaction where it is a primary metric,
    because it has less noise; throughput elsewhere.
    """
    chosen: dict[str, Metric] = {}
    for metric in primary:
        if metric.workload is not None and (
            metric.workload not in chosen or metric.measure.name == CPU.name
        ):
            chosen[metric.workload] = metric
    return list(chosen.values())


def select_speed_comparisons(comparisons: Comparisons, variant: str) -> list[Comparison]:
    """Return a variant's comparisons in speed, one a workload. A variant may have been left out of
    the duet.
    """
    of_workloads = [
        c for c in comparisons.family if c.variant == variant and c.metric.workload is not None
    ]
    # The dictionary keeps the last comparison of each workload: CPU per transaction is sorted after
    # throughput, and both after comparisons without figures.
    order = sorted(
        of_workloads, key=lambda c: (c.ratio is not None, c.metric.measure.name == CPU.name)
    )
    return list({c.metric.workload: c for c in order}.values())


def list_pictured_metrics(comparisons: Comparisons) -> list[Metric]:
    """Return the metrics for a chart of all variants: one a workload, and also throughput where a
    variant has no CPU per transaction.
    """
    used = dict.fromkeys(choose_speed_metrics(comparisons.metrics))
    used |= dict.fromkeys(
        c.metric
        for v in dict.fromkeys(c.variant for c in comparisons.family)
        for c in select_speed_comparisons(comparisons, v)
        if c.ratio
    )
    return list(used)


def compute_speed(comparison: Comparison) -> Ratio | None:
    """Return a variant's speed ÷ the baseline's, above 1 if it is faster: the ratio of throughput,
    or the inverse ratio of cost. None without a ratio.
    """
    ratio = comparison.ratio
    if ratio is None or comparison.metric.better == "higher":
        return ratio
    return ratio.invert()


def is_shown_slower(comparison: Comparison, margin: float = 0.0) -> bool:
    """Whether the whole interval lies more than ``margin`` on the slower side of 1."""
    ratio = comparison.ratio
    if ratio is None or ratio.interval is None:
        return False
    low, high = ratio.interval
    return high < 1 - margin if comparison.metric.better == "higher" else low > 1 + margin
