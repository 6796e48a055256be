"""Apply the stated rule of the recommendation: from comparisons to one ending. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dballoc.analysis.decisions.constraint_bounds import Bounds
from dballoc.analysis.decisions.endings import Aim, Ending, VariantStanding, choose_ending
from dballoc.analysis.decisions.noninferiority import (
    DEFAULT_MARGIN,
    Standing,
    compute_thresholds,
    judge_standing,
)
from dballoc.analysis.decisions.preference import LEAST_MEMORY, Objective, Preference
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons
from dballoc.experiment.designs import Design


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the recommendation rests on beside the comparisons. ``margin``: what may be lost, as a
    share; ``exploratory``: whether it was not stored before the first block; ``bounds``: the
    figures under the constraints; ``collapsed``: the variants whose throughput collapses where the
    baseline's does not, with where; ``left_out``: the variants that play no duets.
    """

    margin: float = DEFAULT_MARGIN
    exploratory: bool = False
    bounds: Bounds = field(default_factory=dict)
    collapsed: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The ``ending``, and the variant that it names (``subject``; None where it names none).

    ``variant``: what to run, None where the rule cannot say: the baseline failed, or the user has
    to choose. ``tie``: whether that is the baseline because no variant is shown to be better.
    ``excluded``: the variants that are shown not to qualify, with the reason. ``standings``: what
    each variant's ending rests on.
    """

    ending: Ending
    subject: str | None
    variant: str | None
    tie: bool
    excluded: dict[str, str]
    faulty: list[str]
    preference: Preference
    standings: Mapping[str, VariantStanding]
    evidence: Evidence


def recommend(
    comparisons: Comparisons,
    baseline: str,
    preference: Preference = LEAST_MEMORY,
    evidence: Evidence | None = None,
) -> Recommendation:
    """Recommend by the rule. A variant with faults or a collapse is never recommended."""
    evidence = evidence or Evidence()
    names = list(dict.fromkeys(c.variant for c in comparisons.family))
    standings = {name: _judge_variant(comparisons, name, preference, evidence) for name in names}
    ending, subject = choose_ending(
        list(standings.values()), baseline_failed=baseline in comparisons.faulty
    )
    stays = ending in (Ending.STAY, Ending.NOT_SETTLED)
    excluded = {
        name: why
        for name in names
        if (why := _find_exclusion(comparisons, name, preference, evidence))
    }
    return Recommendation(
        ending=ending,
        subject=subject,
        variant=subject if ending is Ending.USE else baseline if stays else None,
        tie=stays,
        excluded=excluded,
        faulty=sorted(comparisons.faulty),
        preference=preference,
        standings=standings,
        evidence=evidence,
    )


def select_judged(
    comparisons: Comparisons, variant: str, left_out: frozenset[str] = frozenset()
) -> list[Comparison]:
    """Return a variant's comparisons in both questions. CPU per transaction is not asked of one
    that plays no duets: its speed is its throughput.
    """
    return [
        c
        for c in comparisons.family
        if c.variant == variant
        and c.metric.question
        and not (variant in left_out and c.metric.design == Design.DUET)
    ]


def list_questions(comparisons: Comparisons) -> set[Objective]:
    """Return which questions were compared at all: a duet alone does not compare memory."""
    return {question for m in comparisons.metrics if (question := m.question)}


def compute_gain(comparison: Comparison) -> float:
    """Return by how much the estimate is better, as a logarithm; 0 without a ratio."""
    if comparison.ratio is None or comparison.ratio.estimate <= 0:
        return 0.0
    upward = 1 if comparison.metric.better == "higher" else -1
    return upward * math.log(comparison.ratio.estimate)


def is_promising(comparison: Comparison) -> bool:
    """Whether the estimate, which has an interval, lies where the whole interval would have to."""
    ratio = comparison.ratio
    if ratio is None or ratio.interval is None:
        return False
    gain = compute_thresholds(comparison.metric.better, DEFAULT_MARGIN).gain
    return ratio.estimate > gain if comparison.metric.better == "higher" else ratio.estimate < gain


def _judge_variant(
    comparisons: Comparisons, name: str, preference: Preference, evidence: Evidence
) -> VariantStanding:
    judged = select_judged(comparisons, name, evidence.left_out)
    aims = [
        Aim(
            standing=judge_comparison(c, evidence.margin),
            gain=compute_gain(c),
            first=c.metric.question == preference.objective,
            promising=is_promising(c),
        )
        for c in judged
        if not preference.constraints or c.metric.question == preference.objective
    ]
    if preference.constraints:
        required = _judge_constraints(name, comparisons, preference, evidence.bounds)
    else:
        required = [judge_comparison(c, evidence.margin) for c in judged]
        required += [Standing.UNDECIDED] * (2 - len(list_questions(comparisons)))
    return VariantStanding(
        name=name,
        aims=aims,
        required=required,
        faulty=name in comparisons.faulty,
        collapsed=name in evidence.collapsed,
        has_conditions=bool(preference.constraints),
        loses=not preference.constraints and any(_loses(c, evidence.margin) for c in judged),
    )


def _loses(comparison: Comparison, margin: float) -> bool:
    """Whether the estimate is worse than the margin allows."""
    ratio, better = comparison.ratio, comparison.metric.better
    if ratio is None:
        return False
    tolerance = compute_thresholds(better, margin).tolerance
    return ratio.estimate < tolerance if better == "higher" else ratio.estimate > tolerance


def judge_comparison(comparison: Comparison, margin: float) -> Standing:
    """Judge a comparison by its interval."""
    return judge_standing(comparison.ratio, comparison.metric.better, margin)


def _judge_constraints(
    name: str, comparisons: Comparisons, preference: Preference, bounds: Bounds
) -> list[Standing]:
    """Return how a variant stands under each constraint that concerns it; undecided where there is
    no figure.
    """
    workloads = [m.workload for m in comparisons.metrics if m.workload]
    figures = bounds.get(name, [])
    standings = [b.standing for b in figures]
    for constraint in preference.constraints:
        concerned = all(word in (name, *workloads) for word in constraint.within)
        if concerned and not any(b.constraint == constraint for b in figures):
            standings.append(Standing.UNDECIDED)
    return standings


def _find_exclusion(
    comparisons: Comparisons, name: str, preference: Preference, evidence: Evidence
) -> str:
    if name in evidence.collapsed:
        return f"throughput collapses: {evidence.collapsed[name]}"
    if preference.constraints:
        broken = dict.fromkeys(
            b.constraint.text for b in evidence.bounds.get(name, []) if b.standing is Standing.WORSE
        )
        return f"shown to break {' and '.join(broken)}" if broken else ""
    worse = [
        c.metric.title
        for c in select_judged(comparisons, name, evidence.left_out)
        if judge_comparison(c, evidence.margin) is Standing.WORSE
    ]
    return f"shown to be worse: {'; '.join(worse)}" if worse else ""
