"""The stated rule: of the variants not shown slower by more than 1 %, the one with the least peak RSS; ties go to
the baseline. Pure.
"""

from dataclasses import dataclass

from dballoc.analysis.comparison import Comparisons
from dballoc.analysis.procedure import MARGIN
from dballoc.analysis.verdict import Verdict

RULE = (
    "of the variants that are not shown to be slower by more than 1 %, the one with the least peak RSS; ties go to the baseline"
)


@dataclass(frozen=True)
class Recommendation:
    """``variant`` is None when the baseline itself had faults: then nothing has been compared.

    ``tie``: the chosen one is the baseline because nothing is shown to need less memory.
    """

    variant: str | None
    tie: bool
    slower: list[str]
    faulty: list[str]


def recommend(comparisons: Comparisons, baseline: str) -> Recommendation:
    """Apply the rule. A variant with faults is never recommended."""
    peak = next((m for m in comparisons.metrics if m.key == "rss_peak"), None)
    variants = list(dict.fromkeys(c.variant for c in comparisons.family))
    slower = [v for v in variants if _shown_slower(comparisons, v)]
    faulty = sorted(comparisons.faulty)
    if baseline in faulty:
        return Recommendation(None, False, slower, faulty)
    candidates = []
    for name in variants if peak else []:
        assert peak
        found = comparisons.find(name, peak)
        if name in slower or name in comparisons.faulty or found.ratio is None:
            continue
        if found.verdict is Verdict.LOWER:
            candidates.append((found.ratio.estimate, name))
    if not candidates:
        return Recommendation(baseline, True, slower, faulty)
    return Recommendation(min(candidates)[1], False, slower, faulty)


def _shown_slower(comparisons: Comparisons, variant: str) -> bool:
    return any(
        c.ratio is not None and (c.ratio.high < 1 - MARGIN if c.metric.better == "higher" else c.ratio.low > 1 + MARGIN)
        for c in comparisons.family
        if c.variant == variant and c.metric.workload is not None
    )
