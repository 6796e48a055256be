"""Compare two campaigns: each variant's figure in the second ÷ its figure in the first.

Two ratios answer two questions. *Relative*: each campaign's variant ÷ its own baseline, block by
block, and then the second ÷ the first. Whatever changed between the campaigns and moved the
baseline too cancels. *Absolute*: the variant's figure ÷ its earlier one, with all that happened to
the machine between them; its interval includes the scatter within each campaign and nothing of
that. The relative one is judged where both campaigns have the same baseline. The baseline itself
has the absolute one alone: it shows what changed.

The verdicts share the error of 5 % as those of a campaign do. A campaign that may have stopped at a
look because of what it saw is compared at that look's level: of the error of each comparison, only
the share of the look that the first campaign ended at, times that of the second's, is spent. Over
all pairs of looks these products add up to the whole, so that 5 % hold whichever looks the
campaigns ended at.

A condition of the gate describes what must not be (``rss > 1.05``). It has come true where the
whole interval fulfils it, not where the estimate does: noise alone moves an estimate across any
bound now and then. A strict gate demands the opposite proof, that the whole interval does not
fulfil it. What cannot be judged at all fails either gate: one that measured nothing must not be
open.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dballoc.experiment.designs import Design
from dballoc.questions.campaign.answer.conditions_and_preference import Condition
from dballoc.questions.compare import baseline_comparison
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.comparability import Comparability, pair_campaigns
from dballoc.questions.compare.measures import CONDITIONS, IDLE, Measure, Metric
from dballoc.questions.compare.procedure import CPU, THROUGHPUT, Procedure, declare_shares
from dballoc.questions.compare.values import Values, read_values
from dballoc.questions.compare.verdict import Verdict, judge_ratio
from dballoc.questions.statistics.ratio_interval import (
    DESCRIPTIVE_CONFIDENCE,
    UnpairedRatio,
    compute_unpaired_ratio,
)


@dataclass(frozen=True, kw_only=True)
class LookTaken:
    """The look at which a design of the ``campaign`` ("first" or "second") is judged: after
    ``blocks`` of the ``planned`` ones; None before the first look.
    """

    campaign: str
    design: str
    blocks: int | None
    planned: int

    @property
    def words(self) -> str:
        """Return how the look is told: ``the first's solo blocks: 6 of 10 planned``."""
        if self.blocks is None:
            return f"the {self.campaign}'s {self.design} blocks: no look was reached"
        progress = f"{self.blocks} of {self.planned} planned"
        return f"the {self.campaign}'s {self.design} blocks: {progress}"


def list_looks_taken(campaign: str, procedures: Mapping[str, Procedure]) -> list[LookTaken]:
    """Return the looks at which a campaign is judged, if they are not its planned ends."""
    return [
        LookTaken(campaign=campaign, design=d, blocks=p.reached, planned=p.looks[-1])
        for d, p in procedures.items()
        if p.reached != p.looks[-1]
    ]


def find_look_share(procedures: Mapping[str, Procedure], design: str) -> float:
    """Return the share of its error that a design spends at the look at which it is judged; 1 for a
    look that was not reached, which has no verdict.
    """
    procedure = procedures.get(design)
    if procedure is None or procedure.reached is None:
        return 1.0
    return procedure.spending[procedure.reached]


def declare_diff_levels(judged: Collection[Metric], variants: int) -> dict[str, float]:
    """Return the error of one comparison by the measure's name. ``judged``: the metrics with a
    verdict; ``variants``: those that are judged.
    """
    names = [metric.measure.name for metric in judged]
    workloads = max(1, *(names.count(speed) for speed in (CPU, THROUGHPUT)))
    shares = declare_shares(dict.fromkeys(names), variants + 1, workloads)
    return {name: shares[name].of_each for name in names}


RatioKind = Literal["relative", "absolute"]


@dataclass(frozen=True, kw_only=True)
class DiffFigure:
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

    pairing: Comparability
    judged: RatioKind
    why: str
    confidence: float
    metrics: list[Metric]
    figures: list[DiffFigure]
    moved: list[DiffFigure]
    withheld: str = ""
    looks: list[LookTaken] = field(default_factory=list)

    def no_verdict(self, figure: DiffFigure) -> str:
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

    def of(self, metric: Metric) -> list[DiffFigure]:
        """Return the figures of all variants in one metric."""
        return [f for f in self.figures if f.metric == metric]


def compare_campaigns(
    first: Campaign, second: Campaign, kind: RatioKind | None = None
) -> CampaignDiff:
    """Compare two campaigns. ``kind``: which ratio to judge; by default the relative one where
    there is a common baseline.

    Raises ValueError for ``kind="relative"`` without one.
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
    figures: list[DiffFigure] = []
    moved: list[DiffFigure] = []
    for metric, confidence in levels.items():
        values = read_values(first, metric), read_values(second, metric)
        for name in pairing.variants:
            is_moved = relative and name == pairing.baseline
            figure = DiffFigure(
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
        confidence=max(levels.values(), default=DESCRIPTIVE_CONFIDENCE),
        metrics=metrics,
        figures=figures,
        moved=moved,
        withheld=_explain_withheld(pairing, relative),
        looks=list_looks_taken("first", procedures[0]) + list_looks_taken("second", procedures[1]),
    )


def _explain_withheld(pairing: Comparability, relative: bool) -> str:
    """Return why there are no verdicts at all; empty if there are."""
    if pairing.machine and not relative:
        return f"different machines ({'; '.join(pairing.machine)}) and no common baseline"
    return ""


def _list_faults(campaign: Campaign, baseline: str | None) -> dict[str, tuple[int, int]]:
    """Return (trials with a fault, trials) by variant; faults of the ``baseline`` count for every
    variant without faults of its own.
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
        else DESCRIPTIVE_CONFIDENCE
        for m in metrics
    }


def _choose_ratio(pairing: Comparability, kind: RatioKind | None) -> tuple[RatioKind, str]:
    if kind == "relative" and pairing.baseline is None:
        raise ValueError(pairing.no_baseline)
    if kind == "absolute":
        return "absolute", "as requested"
    if pairing.baseline is None:
        return "absolute", pairing.no_baseline
    if len(pairing.variants) == 1:
        return "absolute", f"{pairing.baseline}, the baseline, is the only variant in both"
    return "relative", f"both campaigns have the same baseline, {pairing.baseline}"


def _list_metrics(first: Campaign, pairing: Comparability) -> list[Metric]:
    """Return the comparable metrics, those with a verdict first."""
    metrics = [
        metric
        for measure in first.measures.values()
        if measure.condition and (measure.replay or not first.is_replay)
        for metric in _list_metrics_of(measure, first, pairing)
    ]
    return sorted(metrics, key=lambda m: (not m.question, m.question == "memory", -m.measure.error))


def _list_metrics_of(measure: Measure, first: Campaign, pairing: Comparability) -> list[Metric]:
    """Return the metric of the whole trial, or of each workload; none if it is not comparable."""
    if measure.trial:
        is_idle = measure.name == IDLE.name
        lacking = pairing.no_idle if is_idle else pairing.no_memory
        measured = first.experiment.time.idle if is_idle else True
        return [Metric(measure=measure)] if measured and not lacking else []
    if Design.DUET in measure.designs and not pairing.no_duet:
        threads = first.facts.duet.threads
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


@dataclass(frozen=True)
class FigureCheck:
    """One figure under a condition. ``holds``: True if the condition is shown to hold, False if
    shown not to, None if neither; ``problem`` says why the figure could not be judged.
    """

    figure: DiffFigure
    holds: bool | None
    problem: str = ""


@dataclass(frozen=True)
class ConditionCheck:
    """A condition with the findings of all figures that it concerns; ``problem``: why there are
    none.
    """

    condition: Condition
    findings: list[FigureCheck]
    problem: str = ""

    def failures(self, strict: bool) -> list[FigureCheck]:
        """The findings that fail the gate."""
        return [f for f in self.findings if f.holds or f.problem or (strict and f.holds is None)]

    def failed(self, strict: bool) -> bool:
        """Whether the gate is closed."""
        return bool(self.problem or self.failures(strict))


def judge_condition(between: CampaignDiff, condition: Condition) -> ConditionCheck:
    """Judge every figure that the condition concerns. The baseline, whose relative ratio is 1 by
    definition, is judged by its absolute ratio, and only where the condition names it.
    """
    named = [f for f in between.moved if f.variant in condition.within]
    figures = [
        f for f in [*between.figures, *named]
        if f.metric.measure.condition == condition.measure
        and condition.concerns(f.variant, f.metric.workload)
    ]  # fmt: skip
    if not figures:
        return ConditionCheck(condition, [], _explain_no_figures(between, condition))
    return ConditionCheck(condition, [_judge_figure(between, condition, f) for f in figures])


def _judge_figure(between: CampaignDiff, condition: Condition, figure: DiffFigure) -> FigureCheck:
    if problem := between.no_verdict(figure):
        return FigureCheck(figure, None, problem)
    assert figure.ratio and figure.ratio.interval
    return FigureCheck(figure, condition.holds(*figure.ratio.interval))


def _explain_no_figures(between: CampaignDiff, condition: Condition) -> str:
    pairing = between.pairing
    reasons = {"rss": pairing.no_memory, "rss_idle": pairing.no_idle}.get(
        condition.measure, pairing.no_speed
    )
    if condition.measure == "cpu" and pairing.no_speed:
        reasons = [*pairing.no_duet, *(r for r in pairing.no_speed if r not in pairing.no_duet)]
    if reasons:
        return "; ".join(reasons)
    of_load = not CONDITIONS[condition.measure].trial
    return "; ".join(pairing.unpaired) or (
        "no workload is in both" if of_load else "no variant with this measure is in both"
    )
