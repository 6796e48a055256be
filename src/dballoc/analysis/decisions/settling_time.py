"""How much more time would settle what a campaign has left open. Pure.

For each open figure: the number of blocks whose interval would exclude the bound in question, if
the true ratio is as estimated. Several open figures share the risk of missing, so that all are
settled with the power named.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.constraint_bounds import Bound
from dballoc.analysis.decisions.endings import Ending
from dballoc.analysis.decisions.noninferiority import DEFAULT_MARGIN, Standing, compute_thresholds
from dballoc.analysis.decisions.recommendation import (
    Recommendation,
    compute_gain,
    is_promising,
    judge_comparison,
    select_judged,
)
from dballoc.analysis.decisions.sequential_test import EXTENSIONS
from dballoc.analysis.statistics.detectable_difference import (
    POWER,
    count_blocks_to_exclude,
    has_power,
)
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons

# Student's t quantile: scipy.stats has it too, but takes two seconds to import.
from dballoc.distributions import compute_t_quantile

# A campaign that is not finished goes on to its planned blocks; one that is may be extended to the
# multiples of them that were declared.
STAGES = (1.0, *EXTENSIONS)

# Nobody waits longer for one answer.
LONGEST = 8 * 3600.0


@dataclass(frozen=True, kw_only=True)
class OpenFigure:
    """A figure that is not decided. ``scatter``: of a block's ln ratio; ``distance``: from the
    estimate to the bound that the interval has to exclude, as a difference of logarithms;
    ``confidence``: the level of the interval after a number of blocks.
    """

    design: str
    scatter: float
    distance: float
    confidence: Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How far a design is: blocks finished and planned, and the seconds that one block takes."""

    blocks: int
    planned: int
    seconds: float


class Way(StrEnum):
    """How an open question may be settled."""

    EXTEND = "extend"
    NEW_CAMPAIGN = "new campaign"
    NOT_HERE = "not on this host"


@dataclass(frozen=True)
class Settling:
    """``way``, and the minutes of load that it takes; None where it takes too long."""

    way: Way
    minutes: int | None = None


def compute_settling(
    figures: Sequence[OpenFigure], paces: Mapping[str, Pace], extendable: bool
) -> Settling | None:
    """Return the least time that would settle all figures: by extending the campaign, if it is
    ``extendable`` that far, else by a new one. None where there is no open figure.
    """
    if not figures:
        return None
    power = 1 - (1 - POWER) / len(figures)
    for stage in STAGES if extendable else ():
        blocks = {d: math.ceil(stage * pace.planned) for d, pace in paces.items()}
        if any(blocks[d] > pace.blocks for d, pace in paces.items()) and all(
            has_power(
                f.scatter, f.distance, blocks[f.design], f.confidence(blocks[f.design]), power
            )
            for f in figures
        ):
            return _allow(
                Way.EXTEND,
                sum(max(0, blocks[d] - pace.blocks) * pace.seconds for d, pace in paces.items()),
            )
    return _compute_new_campaign(figures, paces, power)


def _compute_new_campaign(
    figures: Sequence[OpenFigure], paces: Mapping[str, Pace], power: float
) -> Settling:
    """Return the budget of a campaign from the start. Its designs share the budget evenly."""
    longest = 0.0
    for figure in figures:
        pace = paces[figure.design]
        blocks = count_blocks_to_exclude(
            figure.scatter, figure.distance, figure.confidence(pace.planned), power
        )
        if blocks is None:
            return Settling(Way.NOT_HERE)
        longest = max(longest, blocks * pace.seconds)
    return _allow(Way.NEW_CAMPAIGN, longest * len(paces))


def _allow(way: Way, seconds: float) -> Settling:
    if seconds > LONGEST:
        return Settling(Way.NOT_HERE)
    return Settling(way, max(1, math.ceil(seconds / 60)))


def measure_paces(campaign: Campaign, planned: Mapping[str, int]) -> dict[str, Pace]:
    """Return the pace of each design; repeated attempts at a block are counted with it."""
    paces = {}
    for design in campaign.designs:
        rows = campaign.block if design == "solo" else campaign.duet_block
        blocks = campaign.blocks(design)
        seconds = float((rows["ended"] - rows["started"]).sum()) / blocks if blocks else 0.0
        paces[design] = Pace(blocks=blocks, planned=planned[design], seconds=max(0.0, seconds))
    return paces


def list_open_figures(comparisons: Comparisons, recommendation: Recommendation) -> list[OpenFigure]:
    """Return what keeps the variant that looks better from being used: the gain in which it looks
    best, unless one is shown, and all that is not shown to be no worse. Empty for other endings.
    """
    name, evidence = recommendation.subject, recommendation.evidence
    if recommendation.ending is not Ending.NOT_SETTLED or name is None:
        return []
    judged = [
        c
        for c in select_judged(comparisons, name, evidence.left_out)
        if c.ratio and c.ratio.has_interval
    ]
    figures = []
    lead = find_unshown_gain(judged, recommendation)
    if lead:
        figures.append(_open_comparison(comparisons, lead, _measure_gain_distance(lead)))
    if recommendation.preference.constraints:
        return figures + [
            _open_bound(bound)
            for bound in evidence.bounds.get(name, [])
            if bound.standing is Standing.UNDECIDED and bound.low and bound.blocks > 1
        ]
    return figures + [
        _open_comparison(comparisons, c, _measure_loss_distance(c, evidence.margin))
        for c in judged
        if c is not lead and judge_comparison(c, evidence.margin) is Standing.UNDECIDED
    ]


def find_unshown_gain(
    judged: Sequence[Comparison], recommendation: Recommendation
) -> Comparison | None:
    """Return the comparison in which a variant looks best; None where a gain is shown."""
    preference, margin = recommendation.preference, recommendation.evidence.margin
    aims = [
        c for c in judged if not preference.constraints or c.metric.question == preference.objective
    ]
    if any(judge_comparison(c, margin) is Standing.BETTER for c in aims):
        return None
    promising = [c for c in aims if is_promising(c)]
    return max(
        promising,
        key=lambda c: (c.metric.question == preference.objective, compute_gain(c)),
        default=None,
    )


def _measure_gain_distance(comparison: Comparison) -> float:
    """Return the distance from the estimate to the threshold of a gain, which it lies beyond."""
    assert comparison.ratio
    gain = compute_thresholds(comparison.metric.better, DEFAULT_MARGIN).gain
    return abs(math.log(comparison.ratio.estimate / gain))


def _measure_loss_distance(comparison: Comparison, margin: float) -> float:
    """Return the distance from the estimate to the bound whose exclusion would decide: that of no
    worse, or that of worse, whichever is farther away.
    """
    assert comparison.ratio
    limits = compute_thresholds(comparison.metric.better, margin)
    inward = 1 if comparison.metric.better == "lower" else -1
    estimate = comparison.ratio.estimate
    return max(
        inward * math.log(limits.tolerance / estimate), inward * math.log(estimate / limits.loss)
    )


def _open_comparison(
    comparisons: Comparisons, comparison: Comparison, distance: float
) -> OpenFigure:
    ratio, metric = comparison.ratio, comparison.metric
    assert ratio
    procedure = comparisons.procedures[metric.design]
    return OpenFigure(
        design=metric.design,
        scatter=ratio.scatter,
        distance=distance,
        confidence=lambda blocks: procedure.after(blocks).find_confidence(metric.measure),
    )


def _open_bound(bound: Bound) -> OpenFigure:
    """Return a constraint's figure. Its scatter follows from the interval's width."""
    assert bound.low and bound.high
    critical = compute_t_quantile(bound.blocks - 1, (1 + bound.confidence) / 2)
    half_width = math.log(bound.high / bound.low) / 2
    return OpenFigure(
        design="duet" if bound.primary and bound.constraint.measure == "cpu" else "solo",
        scatter=half_width * math.sqrt(bound.blocks) / critical,
        distance=abs(math.log(bound.ratio / bound.constraint.bound)),
        confidence=lambda _: bound.confidence,
    )
