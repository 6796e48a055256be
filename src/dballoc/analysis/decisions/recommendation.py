"""Apply the stated rule: see :mod:`dballoc.analysis.decisions.preference`. Pure, except
that constraints look up their figures in the campaign.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.fail_condition import Condition
from dballoc.analysis.decisions.preference import LEAST_MEMORY, Preference
from dballoc.analysis.decisions.sequential_test import MARGIN
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.tables import level_curves, speed_metric
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons

# A measure's key among the primary metrics, where it is not its name. A workload's metric has the
# workload behind the key.
_KEYS = {"rss": "rss_peak"}

# A descriptive measure's name in :mod:`dballoc.analysis.tables.level_curves`, where it differs.
_CURVES = {"cpu": "cpu_per_op"}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A variant's figure under a constraint. ``low`` and ``high`` are None where there is no
    interval.
    """

    constraint: Condition
    workload: str | None
    ratio: float
    low: float | None
    high: float | None
    confidence: float
    primary: bool

    @property
    def broken(self) -> bool:
        """Whether the constraint is shown to be broken: the whole interval lies beyond it."""
        return (
            self.low is not None
            and self.high is not None
            and self.constraint.holds(self.low, self.high) is False
        )


# The figures under the constraints, by variant.
Bounds = Mapping[str, list[Bound]]


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The recommended ``variant``; None when the baseline itself had faults, because nothing was
    compared then.

    ``tie``: the baseline is recommended because no variant is shown to be better. ``excluded``: the
    variants that the rule leaves out, with the reason. ``bounds``: the figures under the
    constraints.
    """

    variant: str | None
    tie: bool
    excluded: dict[str, str]
    faulty: list[str]
    preference: Preference
    bounds: Bounds


def recommend(
    comparisons: Comparisons,
    baseline: str,
    preference: Preference = LEAST_MEMORY,
    bounds: Bounds | None = None,
) -> Recommendation:
    """Recommend a variant by the rule. A variant with faults is never recommended."""
    bounds = bounds or {}
    variants = list(dict.fromkeys(c.variant for c in comparisons.family))
    excluded = {
        v: why
        for v in variants
        if (why := _find_exclusion(comparisons, v, preference, bounds.get(v, [])))
    }
    faulty = sorted(comparisons.faulty)
    if baseline in faulty:
        return Recommendation(
            variant=None,
            tie=False,
            excluded=excluded,
            faulty=faulty,
            preference=preference,
            bounds=bounds,
        )
    compute_score = _score_memory if preference.objective == "memory" else _score_speed
    scores = {
        v: score
        for v in variants
        if v not in excluded
        and v not in comparisons.faulty
        and (score := compute_score(comparisons, v)) is not None
    }
    if not scores:
        return Recommendation(
            variant=baseline,
            tie=True,
            excluded=excluded,
            faulty=faulty,
            preference=preference,
            bounds=bounds,
        )
    best = min(scores, key=lambda v: (scores[v], v))
    return Recommendation(
        variant=best,
        tie=False,
        excluded=excluded,
        faulty=faulty,
        preference=preference,
        bounds=bounds,
    )


def compute_constraint_bounds(
    campaign: Campaign, comparisons: Comparisons, preference: Preference
) -> Bounds:
    """Return every variant's figures under every constraint: with the interval of the primary
    metric where the constraint is on one, else with a plain 95 % interval at the highest level.
    """
    bounds: dict[str, list[Bound]] = {}
    for constraint in preference.constraints:
        key = _KEYS.get(constraint.measure, constraint.measure)
        compared = [*comparisons.family, *comparisons.descriptive]
        primary = [c for c in compared if c.metric.measure == key]
        for name, bound in (
            _collect_primary_bounds(constraint, primary)
            if primary
            else _collect_descriptive_bounds(campaign, constraint)
        ):
            if constraint.concerns(name, bound.workload):
                bounds.setdefault(name, []).append(bound)
    return bounds


def _collect_primary_bounds(
    constraint: Condition, comparisons: list[Comparison]
) -> list[tuple[str, Bound]]:
    bounds = []
    for c in comparisons:
        if c.ratio:
            low, high = (c.ratio.low, c.ratio.high) if c.ratio.has_interval else (None, None)
            bounds.append(
                (
                    c.variant,
                    Bound(
                        constraint=constraint,
                        workload=c.metric.workload,
                        ratio=c.ratio.estimate,
                        low=low,
                        high=high,
                        confidence=c.ratio.confidence,
                        primary=c.judged or c.metric.question is not None,
                    ),
                )
            )
    return bounds


def _collect_descriptive_bounds(
    campaign: Campaign, constraint: Condition
) -> list[tuple[str, Bound]]:
    top = max(campaign.experiment.threads)
    rows = level_curves.compute_relative_levels(
        campaign, _CURVES.get(constraint.measure, constraint.measure)
    ).filter(threads=top)
    return [
        (
            name,
            Bound(
                constraint=constraint,
                workload=workload,
                ratio=ratio,
                low=low,
                high=high,
                confidence=level_curves.CONFIDENCE,
                primary=False,
            ),
        )
        for name, workload, ratio, low, high in rows.select(
            "variant", "workload", "ratio", "low", "high"
        ).iter_rows()
    ]


def _find_exclusion(
    comparisons: Comparisons, variant: str, preference: Preference, bounds: list[Bound]
) -> str:
    if preference.constraints:
        broken = dict.fromkeys(b.constraint.text for b in bounds if b.broken)
        return f"shown to break {' and '.join(broken)}" if broken else ""
    of_variant = [c for c in comparisons.family if c.variant == variant]
    if preference.objective == "memory":
        out = any(
            speed_metric.is_shown_slower(c, MARGIN)
            for c in of_variant
            if c.metric.workload is not None
        )
    else:
        out = any(
            c.ratio is not None and c.ratio.low > 1 + MARGIN
            for c in of_variant
            if c.metric.key == "rss_peak"
        )
    return preference.own_reason if out else ""


def _score_memory(comparisons: Comparisons, variant: str) -> float | None:
    """Return the ratio of peak RSS of a variant that is shown to need less; None for another."""
    peak = next(
        (c for c in comparisons.family if c.variant == variant and c.metric.key == "rss_peak"), None
    )
    return peak.ratio.estimate if peak and peak.ratio and peak.verdict is Verdict.LOWER else None


def _score_speed(comparisons: Comparisons, variant: str) -> float | None:
    """Return the mean ln slow-down (less is faster) of a variant that is shown to be faster in some
    workload and slower in none; None for another.
    """
    of_variant = speed_metric.select_speed_comparisons(comparisons, variant)
    if not any(map(speed_metric.is_shown_faster, of_variant)) or any(
        map(speed_metric.is_shown_slower, of_variant)
    ):
        return None
    return -math.fsum(
        math.log(s.estimate) for c in of_variant if (s := speed_metric.compute_speed(c))
    ) / len(of_variant)
