"""The recommendation for programs: the rule, what it chose and why, and every candidate's
figures.
"""

from typing import Any

import dballoc
from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.constraint_bounds import Bound
from dballoc.analysis.decisions.recommendation import Recommendation
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons
from dballoc.document.model import Answer
from dballoc.report.wording.answer import describe_verdict, measure_progress
from dballoc.report.wording.ratios_as_text import describe_ratio

# Raise it when a key changes its meaning or goes.
FORMAT = 1


def describe_recommendation(
    campaign: Campaign, comparisons: Comparisons, chosen: Recommendation, answer: Answer
) -> dict[str, Any]:
    """Return the recommendation as plain data. Ratios are to the baseline; an interval's ends are
    null where there is none. ``recommended`` is null when the rule cannot choose: the baseline had
    faults, fewer than two blocks have what it takes, or a gain has to be weighed against a loss.
    ``answer`` is the campaign's ending, one of :class:`dballoc.analysis.decisions.endings.Ending`,
    and ``subject`` the variant that it names; ``ending`` is why the campaign ended.
    """
    progress, baseline = measure_progress(campaign), campaign.experiment.baseline
    blocks = max((c.ratio.blocks for c in comparisons.family if c.ratio), default=0)
    # Without memory there is no recommendation by it; see dballoc.report.wording.ending.
    memory = (
        any(m.question == "memory" for m in comparisons.metrics)
        or chosen.preference.objective == "speed"
    )
    judged = any(c.judged for c in comparisons.family)
    recommended = chosen.variant if blocks > 1 and memory and judged else None
    return {
        "format": FORMAT,
        "dballoc": dballoc.__version__,
        "experiment": campaign.experiment.name,
        "prefer": chosen.preference.text,
        "rule": chosen.preference.describe_rule(chosen.evidence.margin),
        "margin": chosen.evidence.margin,
        "exploratory": chosen.evidence.exploratory,
        "answer": chosen.ending.value,
        "subject": chosen.subject,
        "command": answer.command or None,
        "recommended": recommended,
        "tie": chosen.tie if recommended else None,
        "headline": answer.headline,
        "reason": answer.reason,
        "final": progress.final,
        "ending": progress.ending,
        "blocks": progress.blocks,
        "planned_blocks": progress.planned,
        "baseline": baseline,
        "candidates": [
            {
                "variant": name,
                "baseline": name == baseline,
                "faults": _count_faults(comparisons.faulty.get(name)),
                "excluded": chosen.excluded.get(name),
                "figures": [
                    _describe_figure(c, comparisons)
                    for c in [*comparisons.family, *comparisons.descriptive]
                    if c.variant == name != baseline
                ],
                "constraints": [_describe_bound(b) for b in chosen.evidence.bounds.get(name, [])],
            }
            for name in campaign.names
        ],
        "floor": [_describe_figure(c, comparisons) for c in comparisons.floor],
        "notes": answer.notes,
    }


def _count_faults(k_of_n: tuple[int, int] | None) -> dict[str, int] | None:
    return {"trials": k_of_n[1], "with_a_fault": k_of_n[0]} if k_of_n else None


def _describe_figure(comparison: Comparison, comparisons: Comparisons) -> dict[str, Any]:
    is_judged = comparison in comparisons.family
    r, m = comparison.ratio, comparison.metric
    return {
        "metric": m.measure.name,
        "workload": m.workload,
        "title": m.title,
        "better": m.better,
        "design": m.design,
        "confidence": comparisons.confidence(m),
        **describe_ratio(r),
        "blocks": r.blocks if r else 0,
        "verdict": describe_verdict(comparison, comparisons) if is_judged else None,
    }


def _describe_bound(bound: Bound) -> dict[str, Any]:
    return {
        "constraint": bound.constraint.text,
        "workload": bound.workload,
        "ratio": bound.ratio.estimate,
        "low": bound.ratio.low,
        "high": bound.ratio.high,
        "confidence": bound.ratio.confidence,
        "holds": bound.holds,
    }
