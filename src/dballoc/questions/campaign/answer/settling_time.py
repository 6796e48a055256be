"""How much more time would settle what a campaign has left open. Pure.

For each open figure: the number of blocks whose interval, or whose one-sided bound, would exclude
what is in question, if the true ratio is as estimated. Several open figures share the risk of
missing, so that all are settled with the power named.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dballoc.experiment.designs import DesignChoice, name_choice, select_designs
from dballoc.questions.campaign.answer.recommendation import (
    Bound,
    Ending,
    Recommendation,
    compute_gain,
    is_promising,
    judge_comparison,
    select_judged,
)
from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import Metric
from dballoc.questions.compare.procedure import (
    FIRST_LOOK,
    Procedure,
    declare_procedure,
    list_extension_goals,
)
from dballoc.questions.compare.split_by_host import split_by_host
from dballoc.questions.compare.verdict import DEFAULT_MARGIN, Noninferiority, compute_thresholds
from dballoc.questions.statistics.detectable_difference import (
    MOST_BLOCKS,
    POWER,
    count_blocks_to_exclude,
    has_power,
)
from dballoc.questions.statistics.ratio_interval import Ratio

# Nobody waits longer for one answer.
LONGEST = 8 * 3600.0
# A budget is so many times what its blocks take: a slower hour or a repeat must not end it early.
_ROOM = 1.1


@dataclass(frozen=True, kw_only=True)
class OpenFigure:
    """A figure that is not decided. ``scatter``: of a block's ln ratio; ``distance``: from the
    estimate to the bound that the interval has to exclude, as a difference of logarithms;
    ``confidence``: the two-sided level of what has to exclude it, after a number of blocks of this
    campaign; ``new_confidence``: that at the end of a new campaign with that many planned blocks.
    """

    design: str
    scatter: float
    distance: float
    confidence: Callable[[int], float]
    new_confidence: Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class DesignPace:
    """How far a design is: blocks finished, the seconds that one block takes, and on how many
    ``hosts`` blocks run at the same time.
    """

    blocks: int
    seconds: float
    hosts: int = 1

    def estimate_seconds(self, blocks: int) -> float:
        """Return the seconds that so many blocks take."""
        return math.ceil(blocks / self.hosts) * self.seconds


class Way(StrEnum):
    """How an open question may be settled."""

    EXTEND = "extend"
    NEW_CAMPAIGN = "new campaign"
    NOT_HERE = "not on this host"


@dataclass(frozen=True, kw_only=True)
class SettlingTime:
    """``way``, and the minutes of load that it takes; None where it takes too long. ``blocks``: of
    each design of a new campaign; ``design``: what alone an extension goes on with, None: all that
    are not decided; ``only_measures``: whether it gives figures their first interval, which says
    nothing of how they will be decided.
    """

    way: Way
    minutes: int | None = None
    blocks: int | None = None
    design: DesignChoice | None = None
    only_measures: bool = False


def find_settling(
    recommendation: Recommendation,
    paces: Mapping[str, DesignPace],
    goals: Sequence[Mapping[str, int]],
    *,
    shares_blocks: bool = False,
) -> SettlingTime | None:
    """Return what would settle the answer, or give its figures their first intervals; None where
    it is settled, or nothing that the campaign measures is open. ``shares_blocks``: as for
    :func:`compute_settling`.
    """
    if list_unmeasured(recommendation) or list_unmeasured_conditions(recommendation):
        return plan_first_interval(paces, goals)
    return compute_settling(
        list_open_figures(recommendation), paces, goals, shares_blocks=shares_blocks
    )


def compute_settling(
    figures: Sequence[OpenFigure],
    paces: Mapping[str, DesignPace],
    goals: Sequence[Mapping[str, int]],
    *,
    shares_blocks: bool = False,
) -> SettlingTime | None:
    """Return the least time that would settle all figures: by an extension to one of the ``goals``
    (numbers of blocks by design, the nearest first), else by a new campaign. None where there is no
    open figure. ``shares_blocks``: whether other answers wait for the same blocks, and perhaps for
    other designs: then an extension goes on with all of them.
    """
    if not figures:
        return None
    power = 1 - (1 - POWER) / len(figures)
    design = None if shares_blocks else name_choice({figure.design for figure in figures})
    for goal in goals:
        if all(_is_settled_at(figure, goal, paces, power) for figure in figures):
            needed = {d: n for d, n in goal.items() if d in select_designs(design)}
            extension = _allow(Way.EXTEND, _estimate_extension_seconds(needed, paces))
            return replace(extension, design=design if needed != goal else None)
    return _compute_new_campaign(figures, paces, power)


def _is_settled_at(
    figure: OpenFigure, goal: Mapping[str, int], paces: Mapping[str, DesignPace], power: float
) -> bool:
    """Whether an extension to a goal adds blocks to the figure's design, and enough of them."""
    blocks = goal.get(figure.design, 0)
    return blocks > paces[figure.design].blocks and has_power(
        figure.scatter, figure.distance, blocks, figure.confidence(blocks), power
    )


def plan_first_interval(
    paces: Mapping[str, DesignPace], goals: Sequence[Mapping[str, int]]
) -> SettlingTime | None:
    """Return the time to the next look, for figures that have no interval: by an extension to the
    first of the ``goals``, else by a new campaign up to its first look. None where the pace of a
    design is not known.
    """
    if not all(pace.blocks for pace in paces.values()):
        return None
    if goals:
        seconds = _estimate_extension_seconds(goals[0], paces)
        return replace(_allow(Way.EXTEND, seconds), only_measures=True)
    seconds = _ROOM * sum(pace.estimate_seconds(FIRST_LOOK) for pace in paces.values())
    return replace(_allow(Way.NEW_CAMPAIGN, seconds, FIRST_LOOK), only_measures=True)


def _estimate_extension_seconds(goal: Mapping[str, int], paces: Mapping[str, DesignPace]) -> float:
    """Return the seconds that the blocks up to a goal take."""
    return sum(paces[d].estimate_seconds(max(0, n - paces[d].blocks)) for d, n in goal.items())


def _compute_new_campaign(
    figures: Sequence[OpenFigure], paces: Mapping[str, DesignPace], power: float
) -> SettlingTime:
    """Return the blocks that each design of a campaign from the start plans, and its budget."""
    needed = [_count_planned_blocks(figure, power) for figure in figures]
    if None in needed:
        return SettlingTime(way=Way.NOT_HERE)
    blocks = max(n for n in needed if n is not None)
    seconds = _ROOM * sum(pace.estimate_seconds(blocks) for pace in paces.values())
    return _allow(Way.NEW_CAMPAIGN, seconds, blocks)


def _count_planned_blocks(figure: OpenFigure, power: float) -> int | None:
    """Return how many blocks a new campaign has to plan to settle a figure at its end; None beyond
    what may be planned. The level rises with the looks that they bring, so that the blocks for the
    first plan's level may be too few.
    """
    blocks = count_blocks_to_exclude(
        figure.scatter, figure.distance, figure.new_confidence(FIRST_LOOK), power
    )
    if blocks is None:
        return None
    blocks = max(FIRST_LOOK, blocks)
    while blocks <= MOST_BLOCKS:
        confidence = figure.new_confidence(blocks)
        if has_power(figure.scatter, figure.distance, blocks, confidence, power):
            return blocks
        blocks += 1 + blocks // 50
    return None


def _allow(way: Way, seconds: float, blocks: int | None = None) -> SettlingTime:
    if seconds > LONGEST:
        return SettlingTime(way=Way.NOT_HERE)
    return SettlingTime(way=way, minutes=max(1, math.ceil(seconds / 60)), blocks=blocks)


def measure_paces(campaign: Campaign) -> dict[str, DesignPace]:
    """Return the pace of each design; repeated attempts at a block are counted with it."""
    paces: dict[str, DesignPace] = {}
    hosts = max(1, len(split_by_host(campaign)))
    for design in campaign.facts.designs:
        rows = campaign.list_attempts(design)
        blocks = campaign.blocks(design)
        seconds = float((rows["ended"] - rows["started"]).sum()) / blocks if blocks else 0.0
        paces[design] = DesignPace(blocks=blocks, seconds=max(0.0, seconds), hosts=hosts)
    return paces


def list_goals(campaign: Campaign, procedures: Mapping[str, Procedure]) -> list[dict[str, int]]:
    """Return the numbers of blocks, by design, to which a campaign may be extended; none where it
    ran on several hosts, is judged once, or every design is decided.
    """
    if campaign.placement.height or campaign.facts.measured_only:
        return []
    going_on = {d: p for d, p in procedures.items() if d not in campaign.facts.decided}
    if not all(p.blocks for p in going_on.values()):
        return []
    return list_extension_goals(going_on)


def list_open_figures(recommendation: Recommendation) -> list[OpenFigure]:
    """Return what keeps the variant that looks better from being used: the gain in which it looks
    best, unless one is shown, and all that is not shown to be no worse. Of an answer that is
    settled, that is its contender. Where nothing looks better: whatever may yet be better by more
    than 1 %. Empty for other endings.
    """
    comparisons = recommendation.comparisons
    if recommendation.ending is Ending.STAY:
        return [_open_gain(comparisons, c) for c in list_possible_gains(recommendation)]
    evidence = recommendation.evidence
    is_open = recommendation.ending is Ending.NOT_SETTLED
    name = recommendation.subject if is_open else recommendation.contender
    if name is None:
        return []
    judged = [
        c
        for c in select_judged(comparisons, name, evidence.left_out)
        if c.ratio and c.ratio.interval
    ]
    figures = []
    lead = find_unshown_gain(judged, recommendation)
    if lead:
        figures.append(_open_gain(comparisons, lead))
    if recommendation.preference.constraints:
        return figures + [
            _open_condition(comparisons, bound)
            for bound in evidence.bounds.get(name, [])
            if bound.standing is Noninferiority.UNDECIDED and bound.ratio.interval
        ]
    return figures + [
        _open_loss(comparisons, c, evidence.margin)
        for c in judged
        if c is not lead and judge_comparison(c, evidence.margin) is Noninferiority.UNDECIDED
    ]


def list_possible_gains(recommendation: Recommendation) -> list[Comparison]:
    """Return the figures whose intervals reach beyond 1 % in the good direction, of the variants
    that nothing rules out, in the questions that may decide.
    """
    return [c for c in _list_aims(recommendation) if _may_be_better(c)]


def _list_aims(recommendation: Recommendation) -> list[Comparison]:
    preference = recommendation.preference
    return [
        c
        for name in recommendation.standings
        if name not in recommendation.comparisons.faulty and name not in recommendation.excluded
        for c in select_judged(recommendation.comparisons, name, recommendation.evidence.left_out)
        if not preference.constraints or c.metric.question == preference.objective
    ]


def _may_be_better(comparison: Comparison) -> bool:
    ratio, better = comparison.ratio, comparison.metric.better
    if ratio is None or ratio.interval is None:
        return False
    gain = compute_thresholds(better, DEFAULT_MARGIN).gain
    return ratio.interval.low < gain if better == "lower" else ratio.interval.high > gain


def list_unmeasured(recommendation: Recommendation) -> list[Comparison]:
    """Return the comparisons without an interval that the answer would need: of the variant that
    looks better; where none does, of all that nothing rules out.
    """
    if recommendation.ending not in (Ending.STAY, Ending.NOT_SETTLED):
        return []
    return [
        c
        for c in _list_aims(recommendation)
        if c.variant == (recommendation.subject or c.variant)
        and (c.ratio is None or c.ratio.interval is None)
    ]


def list_unmeasured_conditions(recommendation: Recommendation) -> list[str]:
    """Return the user's conditions under which the variant that looks better has no interval."""
    if recommendation.ending is not Ending.NOT_SETTLED or recommendation.subject is None:
        return []
    bounds = recommendation.evidence.bounds.get(recommendation.subject, [])
    return [
        constraint.text
        for constraint in recommendation.preference.constraints
        if (of_constraint := [b for b in bounds if b.constraint == constraint])
        and any(b.ratio.interval is None for b in of_constraint)
    ]


def find_unshown_gain(
    judged: Sequence[Comparison], recommendation: Recommendation
) -> Comparison | None:
    """Return the comparison in which a variant looks best; None where a gain is shown."""
    preference, margin = recommendation.preference, recommendation.evidence.margin
    aims = [
        c for c in judged if not preference.constraints or c.metric.question == preference.objective
    ]
    if any(judge_comparison(c, margin) is Noninferiority.BETTER for c in aims):
        return None
    promising = [c for c in aims if is_promising(c)]
    return max(
        promising,
        key=lambda c: (c.metric.question == preference.objective, compute_gain(c)),
        default=None,
    )


def _open_gain(comparisons: Comparisons, comparison: Comparison) -> OpenFigure:
    """Return what is open until the interval excludes the threshold of a gain, on whichever side of
    the estimate that is.
    """
    assert comparison.ratio
    gain = compute_thresholds(comparison.metric.better, DEFAULT_MARGIN).gain
    distance = abs(math.log(comparison.ratio.estimate / gain))
    return _open_figure(comparisons, comparison.metric, comparison.ratio, distance)


def _open_loss(comparisons: Comparisons, comparison: Comparison, margin: float) -> OpenFigure:
    """Return what is open until the bound shows no worse, or the interval shows worse, whichever
    is farther from the estimate.
    """
    ratio, better = comparison.ratio, comparison.metric.better
    assert ratio
    limits = compute_thresholds(better, margin)
    inward = 1 if better == "lower" else -1
    kept = inward * math.log(limits.tolerance / ratio.estimate)
    lost = inward * math.log(ratio.estimate / limits.loss)
    return _open_figure(
        comparisons, comparison.metric, ratio, max(kept, lost), is_bound=kept >= lost
    )


def _open_condition(comparisons: Comparisons, bound: Bound) -> OpenFigure:
    """Return what is open until a condition is shown to be kept, or to be broken."""
    ratio, condition = bound.ratio, bound.constraint
    distance = abs(math.log(ratio.estimate / condition.bound))
    is_kept = condition.holds_of(ratio.estimate)
    if bound.metric in comparisons.metrics:
        return _open_figure(comparisons, bound.metric, ratio, distance, is_bound=is_kept)
    return OpenFigure(
        design=bound.metric.design,
        scatter=ratio.scatter,
        distance=distance,
        confidence=lambda _: ratio.confidence,
        new_confidence=lambda _: ratio.confidence,
    )


def _open_figure(
    comparisons: Comparisons,
    metric: Metric,
    ratio: Ratio,
    distance: float,
    *,
    is_bound: bool = False,
) -> OpenFigure:
    """Return an open figure of a metric that is judged. ``is_bound``: whether a one-sided bound
    decides it, instead of the interval.
    """
    procedure = comparisons.procedures[metric.design]

    def get_level(at: Procedure) -> float:
        if is_bound:
            return 2 * at.bound_levels[metric.measure.name] - 1
        return at.levels[metric.measure.name]

    return OpenFigure(
        design=metric.design,
        scatter=ratio.scatter,
        distance=distance,
        confidence=lambda blocks: get_level(procedure.after(blocks)),
        new_confidence=lambda n: get_level(
            declare_procedure(n, procedure.shares, judged_once=procedure.judged_once)
        ),
    )
