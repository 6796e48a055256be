"""Compare two campaigns: each variant's figure in the second ÷ its figure in the first.

Two ratios answer two questions. *Relative*: each campaign's variant ÷ its own baseline, block by
block, and then the second ÷ the first. Whatever changed between the campaigns and moved the
baseline too cancels. *Absolute*: the variant's figure ÷ its earlier one, with all that happened to
the machine between them; its interval includes the scatter within each campaign and nothing of
that. The relative one is judged where both campaigns have the same baseline. The baseline itself
has the absolute one alone: it shows what changed.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.comparability import Pairing, pair_campaigns
from dballoc.analysis.decisions.diff_levels import (
    LookTaken,
    declare_diff_levels,
    find_look_share,
    list_looks_taken,
)
from dballoc.analysis.decisions.sequential_test import Procedure
from dballoc.analysis.decisions.verdict import Verdict, judge_ratio
from dballoc.analysis.measures import IDLE, Measure, Metric
from dballoc.analysis.statistics.ratio_interval import UnpairedRatio, compute_unpaired_ratio
from dballoc.analysis.tables import baseline_comparison, level_curves
from dballoc.analysis.tables.values import Values, read_values
from dballoc.experiment.designs import Design

RatioKind = Literal["relative", "absolute"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A variant in one measure, second ÷ first. A ratio is None where no block has both figures it
    takes. ``faults``: (trials with a fault, trials) of each campaign that had any; then there is no
    verdict.
    """

    variant: str
    metric: Metric
    relative: UnpairedRatio | None
    absolute: UnpairedRatio | None
    judged: RatioKind
    faults: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)

    @property
    def ratio(self) -> UnpairedRatio | None:
        """The ratio that is judged."""
        return self.relative if self.judged == "relative" else self.absolute

    @property
    def verdict(self) -> Verdict:
        """The verdict by the judged interval; undecided without one."""
        return judge_ratio(self.ratio)


@dataclass(frozen=True, kw_only=True)
class CampaignDiff:
    """The differences of two campaigns. ``judged``: which ratio the verdicts are about, and
    ``why``; ``confidence``: the level of the primary measures' intervals; ``moved``: the common
    baseline's own absolute figures, where the relative ones are judged; ``withheld``: why there are
    no verdicts at all, empty if there are; ``looks``: where a campaign is judged at another look
    than its planned end.
    """

    pairing: Pairing
    judged: RatioKind
    why: str
    confidence: float
    metrics: list[Metric]
    figures: list[Figure]
    moved: list[Figure]
    withheld: str = ""
    looks: list[LookTaken] = field(default_factory=list)

    def no_verdict(self, figure: Figure) -> str:
        """Return why a figure has no verdict; empty if it has one."""
        if self.withheld:
            return self.withheld
        for look in self.looks:
            of_design = figure.metric.question and look.design == figure.metric.design
            if of_design and look.blocks is None:
                return f"the {look.campaign} campaign is not judged yet"
        for k_of_n, which in zip(figure.faults, ("first", "second"), strict=True):
            if k_of_n:
                return f"{k_of_n[0]} of {k_of_n[1]} trials ended in a fault in the {which}"
        if figure.ratio is None:
            return "no figures"
        return "" if figure.ratio.interval else "one block has no interval"

    def of(self, metric: Metric) -> list[Figure]:
        """Return the figures of all variants in one metric."""
        return [f for f in self.figures if f.metric == metric]


def compare_campaigns(
    first: Campaign, second: Campaign, kind: RatioKind | None = None
) -> CampaignDiff:
    """Compare two campaigns. ``kind``: which ratio to judge; by default the relative one where
    there is a common baseline.

    ValueError for ``kind="relative"`` without one.
    """
    pairing = pair_campaigns(first, second)
    judged, why = _choose_ratio(pairing, kind)
    relative = judged == "relative"
    names = [n for n in pairing.variants if not (relative and n == pairing.baseline)]
    procedures = (
        baseline_comparison.declare_procedures(first),
        baseline_comparison.declare_procedures(second),
    )
    metrics = _list_metrics(first, pairing)
    levels = _list_levels(metrics, procedures, len(names))
    faults = (
        _list_faults(first, pairing.baseline if relative else None),
        _list_faults(second, pairing.baseline if relative else None),
    )

    first = baseline_comparison.select_judged_blocks(first, procedures[0])
    second = baseline_comparison.select_judged_blocks(second, procedures[1])
    figures: list[Figure] = []
    moved: list[Figure] = []
    for metric, confidence in levels.items():
        values = read_values(first, metric), read_values(second, metric)
        for name in pairing.variants:
            is_moved = relative and name == pairing.baseline
            figure = Figure(
                variant=name,
                metric=metric,
                relative=_compare_relative(values, name, pairing.baseline, confidence),
                absolute=_compare_absolute(values, name, metric, confidence),
                judged="absolute" if is_moved else judged,
                faults=(faults[0].get(name), faults[1].get(name)),
            )
            (moved if is_moved else figures).append(figure)
    return CampaignDiff(
        pairing=pairing,
        judged=judged,
        why=why,
        confidence=max(levels.values(), default=level_curves.CONFIDENCE),
        metrics=metrics,
        figures=figures,
        moved=moved,
        withheld=_explain_withheld(pairing, relative),
        looks=list_looks_taken("first", procedures[0]) + list_looks_taken("second", procedures[1]),
    )


def _explain_withheld(pairing: Pairing, relative: bool) -> str:
    """Return why there are no verdicts at all; empty if there are."""
    if pairing.machine and not relative:
        return f"different machines ({'; '.join(pairing.machine)}) and no common baseline"
    return ""


def _list_faults(campaign: Campaign, baseline: str | None) -> dict[str, tuple[int, int]]:
    """Return (trials with a fault, trials) by variant; with faults of the ``baseline`` that ratios
    are to, they are every variant's that has none of its own.
    """
    faults = baseline_comparison.count_faults(campaign)
    if baseline in faults:
        return dict.fromkeys(campaign.names, faults[baseline]) | faults
    return faults


def _list_levels(
    metrics: list[Metric],
    procedures: tuple[dict[str, Procedure], dict[str, Procedure]],
    variants: int,
) -> dict[Metric, float]:
    """Return the level of each metric's intervals; ``variants``: how many are judged."""
    errors = declare_diff_levels([m for m in metrics if m.question], variants)
    return {
        m: 1 - errors[m.measure.name] * math.prod(find_look_share(p, m.design) for p in procedures)
        if m.question
        else level_curves.CONFIDENCE
        for m in metrics
    }


def _choose_ratio(pairing: Pairing, kind: RatioKind | None) -> tuple[RatioKind, str]:
    if kind == "relative" and pairing.baseline is None:
        raise ValueError(pairing.no_baseline)
    if kind == "absolute":
        return "absolute", "as requested"
    if pairing.baseline is None:
        return "absolute", pairing.no_baseline
    if len(pairing.variants) == 1:
        return "absolute", f"{pairing.baseline}, the baseline, is the only variant in both"
    return "relative", f"both campaigns have the same baseline, {pairing.baseline}"


def _list_metrics(first: Campaign, pairing: Pairing) -> list[Metric]:
    """Return the comparable metrics, those with a verdict first."""
    metrics = [
        metric
        for measure in first.measures.values()
        if measure.condition and (measure.replay or not first.is_replay)
        for metric in _list_metrics_of(measure, first, pairing)
    ]
    return sorted(metrics, key=lambda m: (not m.question, m.question == "memory", -m.measure.error))


def _list_metrics_of(measure: Measure, first: Campaign, pairing: Pairing) -> list[Metric]:
    """Return the metric of the whole trial, or of each workload; none if it is not comparable."""
    if measure.trial:
        is_idle = measure.name == IDLE.name
        lacking = pairing.no_idle if is_idle else pairing.no_memory
        measured = first.experiment.time.idle if is_idle else True
        return [Metric(measure=measure)] if measured and not lacking else []
    if measure.design is Design.DUET and not pairing.no_duet:
        threads = first.duet_fact["threads"]
        return [
            Metric(measure=measure, workload=workload, threads=threads, design=Design.DUET)
            for workload in pairing.workloads
        ]
    if pairing.no_speed:
        return []
    return [
        Metric(measure=measure, workload=workload, threads=threads)
        for workload, threads in pairing.levels.items()
    ]


def _compare_relative(
    values: tuple[Values, Values], name: str, baseline: str | None, confidence: float
) -> UnpairedRatio | None:
    if baseline is None or name == baseline:
        return None
    first, second = (v.list_ratios(name, baseline) for v in values)
    return compute_unpaired_ratio(first, second, confidence) if first and second else None


def _compare_absolute(
    values: tuple[Values, Values], name: str, metric: Metric, confidence: float
) -> UnpairedRatio | None:
    """Compare the variant's own figures. A duet has none, because the cost of a transaction depends
    on the half of the CPUs.
    """
    first, second = (list(v.average_blocks(name).values()) for v in values)
    if metric.design.is_paired or not first or not second:
        return None
    return compute_unpaired_ratio(first, second, confidence)
