"""The stated rule applied: see :mod:`dballoc.analysis.preference`. Pure, but for what a constraint's figures take."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dballoc.analysis import curves, speed
from dballoc.analysis.campaign import Campaign
from dballoc.analysis.comparison import Comparison, Comparisons
from dballoc.analysis.condition import Condition
from dballoc.analysis.preference import MEMORY, Preference
from dballoc.analysis.procedure import MARGIN
from dballoc.analysis.verdict import Verdict

# The key of a primary metric is its name here, with the workload behind it where it has one.
_KEYS = {"rss": "rss_peak"}

# What is no primary metric is descriptive: its name in :mod:`dballoc.analysis.curves`.
_CURVES = {"cpu": "cpu_per_op"}


@dataclass(frozen=True)
class Bound:
    """A variant's figure under a constraint. ``low`` and ``high`` are None where there is no interval."""

    constraint: Condition
    workload: str | None
    ratio: float
    low: float | None
    high: float | None
    confidence: float
    primary: bool

    @property
    def broken(self) -> bool:
        """Whether it is shown to be: the whole interval lies beyond."""
        return self.low is not None and self.high is not None and self.constraint.holds(self.low, self.high) is False


# By variant.
Bounds = Mapping[str, list[Bound]]


@dataclass(frozen=True)
class Recommendation:
    """``variant`` is None when the baseline itself had faults: then nothing has been compared.

    ``tie``: the chosen one is the baseline because nothing is shown to be better. ``excluded``: the variants that the rule
    leaves out, with the reason. ``bounds``: the figures under the constraints.
    """

    variant: str | None
    tie: bool
    excluded: dict[str, str]
    faulty: list[str]
    preference: Preference
    bounds: Bounds


def recommend(
    comparisons: Comparisons, baseline: str, preference: Preference = MEMORY, bounds: Bounds | None = None
) -> Recommendation:
    """Apply the rule. A variant with faults is never recommended."""
    bounds = bounds or {}
    variants = list(dict.fromkeys(c.variant for c in comparisons.family))
    excluded = {v: why for v in variants if (why := _excluded(comparisons, v, preference, bounds.get(v, [])))}
    faulty = sorted(comparisons.faulty)
    if baseline in faulty:
        return Recommendation(None, False, excluded, faulty, preference, bounds)
    score = _memory if preference.objective == "memory" else _speed
    scores = {
        v: found for v in variants
        if v not in excluded and v not in comparisons.faulty and (found := score(comparisons, v)) is not None
    }  # fmt: skip
    if not scores:
        return Recommendation(baseline, True, excluded, faulty, preference, bounds)
    best = min(scores, key=lambda v: (scores[v], v))
    return Recommendation(best, False, excluded, faulty, preference, bounds)


def constrained(campaign: Campaign, comparisons: Comparisons, preference: Preference) -> Bounds:
    """Every variant's figures under every constraint: the primary metric's own interval where it is one, a plain 95 %
    interval at the highest level where it is not.
    """
    found: dict[str, list[Bound]] = {}
    for constraint in preference.constraints:
        key = _KEYS.get(constraint.measure, constraint.measure)
        primary = [c for c in comparisons.family if c.metric.key.partition(":")[0] == key]
        for name, bound in _primary(constraint, primary) if primary else _descriptive(campaign, constraint):
            if constraint.concerns(name, bound.workload):
                found.setdefault(name, []).append(bound)
    return found


def _primary(constraint: Condition, comparisons: list[Comparison]) -> list[tuple[str, Bound]]:
    found = []
    for c in comparisons:
        if c.ratio:
            low, high = (c.ratio.low, c.ratio.high) if c.ratio.blocks > 1 else (None, None)
            found.append(
                (c.variant, Bound(constraint, c.metric.workload, c.ratio.estimate, low, high, c.ratio.confidence, True))
            )
    return found


def _descriptive(campaign: Campaign, constraint: Condition) -> list[tuple[str, Bound]]:
    top = max(campaign.experiment.threads)
    rows = curves.relative(campaign, _CURVES.get(constraint.measure, constraint.measure)).filter(threads=top)
    return [
        (name, Bound(constraint, workload, ratio, low, high, curves.CONFIDENCE, False))
        for name, workload, ratio, low, high in rows.select("variant", "workload", "ratio", "low", "high").iter_rows()
    ]


def _excluded(comparisons: Comparisons, variant: str, preference: Preference, bounds: list[Bound]) -> str:
    if preference.constraints:
        broken = dict.fromkeys(b.constraint.text for b in bounds if b.broken)
        return f"shown to break {' and '.join(broken)}" if broken else ""
    mine = [c for c in comparisons.family if c.variant == variant]
    if preference.objective == "memory":
        out = any(speed.shown_slower(c, MARGIN) for c in mine if c.metric.workload is not None)
    else:
        out = any(c.ratio is not None and c.ratio.low > 1 + MARGIN for c in mine if c.metric.key == "rss_peak")
    return preference.own_reason if out else ""


def _memory(comparisons: Comparisons, variant: str) -> float | None:
    """Peak RSS of one that is shown to need less."""
    peak = next((c for c in comparisons.family if c.variant == variant and c.metric.key == "rss_peak"), None)
    return peak.ratio.estimate if peak and peak.ratio and peak.verdict is Verdict.LOWER else None


def _speed(comparisons: Comparisons, variant: str) -> float | None:
    """How slow one is that is shown to be faster in some workload and slower in none: the less the better."""
    mine = speed.of(comparisons, variant)
    if not any(map(speed.shown_faster, mine)) or any(map(speed.shown_slower, mine)):
        return None
    return -math.fsum(math.log(s.estimate) for c in mine if (s := speed.speed(c))) / len(mine)
