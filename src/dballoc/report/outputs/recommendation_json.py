"""The recommendation for programs: the rule, what it chose and why, and every candidate's
figures.
"""

import json
from typing import Any

import dballoc
from dballoc.analysis.decisions.constraint_bounds import Bound
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons
from dballoc.report.report_content import Content
from dballoc.report.wording.answer import describe_verdict, measure_progress

# Raise it when a key changes its meaning or goes.
FORMAT = 1


def dump_recommendation(content: Content) -> str:
    """Return :func:`as_data` as JSON text, with a line's end."""
    return (
        json.dumps(describe_recommendation(content), indent=1, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


def describe_recommendation(content: Content) -> dict[str, Any]:
    """Return the recommendation as plain data. Ratios are to the baseline; an interval's ends are
    null where there is none. ``recommended`` is null when the rule cannot choose: the baseline had
    faults, fewer than two blocks have what it takes, or a gain has to be weighed against a loss.
    ``answer`` is the campaign's ending, one of :class:`dballoc.analysis.decisions.endings.Ending`,
    and ``subject`` the variant that it names; ``ending`` is why the campaign ended.
    """
    campaign, comparisons, chosen = content.campaign, content.comparisons, content.recommendation
    progress, baseline = measure_progress(campaign), campaign.experiment.baseline
    blocks = max((c.ratio.blocks for c in comparisons.family if c.ratio), default=0)
    # Without memory there is no recommendation by it; see dballoc.report.wording.ending.
    memory = (
        any(m.key == "rss_peak" for m in comparisons.metrics)
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
        "command": content.answer.command or None,
        "recommended": recommended,
        "tie": chosen.tie if recommended else None,
        "headline": content.answer.headline,
        "reason": content.answer.reason,
        "final": progress.final,
        "ending": progress.ending,
        "blocks": progress.blocks,
        "planned_blocks": progress.planned,
        "baseline": baseline,
        "candidates": [
            _describe_baseline(content),
            *(_describe_candidate(content, name) for name in campaign.names[1:]),
        ],
        "floor": [_describe_figure(c, comparisons, judged=False) for c in comparisons.floor],
        "notes": content.answer.notes,
    }


def _describe_baseline(content: Content) -> dict[str, Any]:
    name = content.campaign.experiment.baseline
    return {
        "variant": name,
        "baseline": True,
        "faults": _count_faults(content, name),
        "excluded": None,
        "figures": [],
        "constraints": [],
    }


def _describe_candidate(content: Content, name: str) -> dict[str, Any]:
    chosen = content.recommendation
    return {
        "variant": name,
        "baseline": False,
        "faults": _count_faults(content, name),
        "excluded": chosen.excluded.get(name),
        "figures": [
            _describe_figure(c, content.comparisons)
            for c in content.comparisons.family
            if c.variant == name
        ]
        + [
            _describe_figure(c, content.comparisons, judged=False)
            for c in content.comparisons.descriptive
            if c.variant == name
        ],
        "constraints": [_describe_bound(b) for b in chosen.evidence.bounds.get(name, [])],
    }


def _count_faults(content: Content, name: str) -> dict[str, int] | None:
    k_of_n = content.comparisons.faulty.get(name)
    return {"trials": k_of_n[1], "with_a_fault": k_of_n[0]} if k_of_n else None


def _describe_figure(
    comparison: Comparison, comparisons: Comparisons, judged: bool = True
) -> dict[str, Any]:
    r, m = comparison.ratio, comparison.metric
    return {
        "metric": m.key.partition(":")[0],
        "workload": m.workload,
        "title": m.title,
        "better": m.better,
        "design": m.design,
        "confidence": comparisons.confidence(m),
        "ratio": r.estimate if r else None,
        "low": r.low if r else None,
        "high": r.high if r else None,
        "blocks": r.blocks if r else 0,
        "verdict": describe_verdict(comparison, comparisons) if judged else None,
    }


def _describe_bound(bound: Bound) -> dict[str, Any]:
    holds = None
    if bound.low is not None and bound.high is not None:
        holds = bound.constraint.holds(bound.low, bound.high)
    return {
        "constraint": bound.constraint.text,
        "workload": bound.workload,
        "ratio": bound.ratio,
        "low": bound.low,
        "high": bound.high,
        "confidence": bound.confidence,
        "holds": holds,
    }
