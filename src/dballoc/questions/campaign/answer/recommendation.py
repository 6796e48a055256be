"""Apply the stated rule of the recommendation: from the comparisons, and what else was found of
each variant, to one ending.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dballoc.experiment.designs import Design
from dballoc.ground.numbers import listing
from dballoc.questions.campaign.answer.conditions_and_preference import (
    LEAST_MEMORY,
    Condition,
    Objective,
    Preference,
)
from dballoc.questions.campaign.figures import level_curves
from dballoc.questions.compare.baseline_comparison import (
    Comparison,
    Comparisons,
    select_judged_blocks,
)
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import CONDITIONS, Metric
from dballoc.questions.compare.ratios_as_text import format_judged
from dballoc.questions.compare.values import compare, read_values
from dballoc.questions.compare.verdict import (
    DEFAULT_MARGIN,
    Noninferiority,
    compute_thresholds,
    judge_standing,
)
from dballoc.questions.statistics.ratio_interval import Ratio


class Ending(StrEnum):
    """What a campaign ends with; every campaign has exactly one."""

    USE = "use"
    CHOICE = "choice"
    NOT_SETTLED = "not settled"
    STAY = "stay"
    BASELINE_FAILED = "baseline failed"


@dataclass(frozen=True, kw_only=True)
class Aim:
    """A figure in which a variant may be better. ``first``: whether it belongs to the question that
    the user asked first; ``gain``: −ln of the ratio where low is good, ln where high is;
    ``promising``: whether the estimate alone would be better, and has an interval.
    """

    standing: Noninferiority
    gain: float
    first: bool
    promising: bool


@dataclass(frozen=True, kw_only=True)
class VariantStanding:
    """All that decides on a variant. ``required``: how it stands in what must not be worse, its
    aims included; ``faulty``: a trial of it ended in a fault; ``collapsed``: its throughput
    collapses where the baseline's does not; ``loses``: something undecided is estimated to be
    worse than the margin allows; ``has_conditions``: what is required are conditions of the user's,
    who has said what may not be lost, so that breaking one leaves no choice.
    """

    name: str
    aims: Sequence[Aim]
    required: Sequence[Noninferiority]
    faulty: bool = False
    collapsed: bool = False
    loses: bool = False
    has_conditions: bool = False

    @property
    def ending(self) -> Ending:
        """The ending that this variant alone would give."""
        better = any(aim.standing is Noninferiority.BETTER for aim in self.aims)
        worse = self.collapsed or Noninferiority.WORSE in self.required
        if self.faulty or not (better or any(aim.promising for aim in self.aims)):
            return Ending.STAY
        if worse:
            return Ending.CHOICE if better and not self.has_conditions else Ending.STAY
        return Ending.USE if better and self._is_shown_no_worse else Ending.NOT_SETTLED

    @property
    def _is_shown_no_worse(self) -> bool:
        return all(s in (Noninferiority.BETTER, Noninferiority.NO_WORSE) for s in self.required)

    @property
    def shown(self) -> list[Aim]:
        """The figures in which the variant is shown to be better."""
        return [aim for aim in self.aims if aim.standing is Noninferiority.BETTER]

    @property
    def _counted(self) -> list[Aim]:
        return self.shown or [aim for aim in self.aims if aim.promising]

    @property
    def gain(self) -> float:
        """The largest gain that counts, of the first question if there is one; 0 without any."""
        in_first = [aim for aim in self._counted if aim.first]
        return max((aim.gain for aim in in_first or self._counted), default=0.0)

    @property
    def rank(self) -> tuple[bool, bool, bool, float, str]:
        """The order among variants of the same ending, the least first. Of those that are not
        settled, one that is estimated to lose nothing comes before one that loses. Then a gain that
        is shown before one that is not, the first question before the other, the largest gain, the
        name.
        """
        loses = self.loses and self.ending is Ending.NOT_SETTLED
        in_first = any(aim.first for aim in self._counted)
        return (loses, not self.shown, not in_first, -self.gain, self.name)


# From the one that says most. A choice is decided, and comes before what is not.
_ORDER = (Ending.USE, Ending.CHOICE, Ending.NOT_SETTLED)


def choose_ending(
    variants: Sequence[VariantStanding], baseline_failed: bool
) -> tuple[Ending, str | None]:
    """Return the ending, and the variant that it names: None for the last two."""
    if baseline_failed:
        return Ending.BASELINE_FAILED, None
    for ending in _ORDER:
        candidates = [v for v in variants if v.ending is ending]
        if candidates:
            return ending, min(candidates, key=lambda v: v.rank).name
    return Ending.STAY, None


def find_contender(
    standings: Mapping[str, VariantStanding], ending: Ending, subject: str | None
) -> str | None:
    """Return the variant that more time may put in the place of the one that the ending names, as
    it is shown to be better and estimated to lose nothing; None where there is none. Beside one to
    use its gain has to be larger by more than 1 %, so that minutes are not spent on a tie.
    """
    if subject is None or ending is Ending.NOT_SETTLED:
        return None
    rivals = [
        standing
        for standing in standings.values()
        if standing.ending is Ending.NOT_SETTLED and standing.shown and not standing.loses
    ]
    rival = min(rivals, key=lambda standing: standing.rank, default=None)
    if rival is None:
        return None
    if ending is Ending.USE:
        used = standings[subject]
        least = math.log(compute_thresholds("higher", DEFAULT_MARGIN).gain)
        is_tie = rival.rank[:3] == used.rank[:3] and rival.gain - used.gain <= least
        if rival.rank > used.rank or is_tie:
            return None
    return rival.name


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A variant's figure under a constraint: its ratio in a metric."""

    constraint: Condition
    metric: Metric
    ratio: Ratio

    @property
    def workload(self) -> str | None:
        """The workload that the figure belongs to; None for one of the whole trial."""
        return self.metric.workload

    @property
    def holds(self) -> bool | None:
        """Whether the figure keeps to the constraint by its one-sided bound, or nowhere in its
        interval; None if neither, or there is no interval.
        """
        if self.ratio.interval is None or self.ratio.reach is None:
            return None
        is_kept = self.constraint.holds(*self.ratio.reach)
        return is_kept or self.constraint.holds(*self.ratio.interval)

    @property
    def better(self) -> str:
        """Which way the constraint wants the figure: ``lower`` or ``higher``."""
        return "lower" if self.constraint.operator.startswith("<") else "higher"

    @property
    def text(self) -> str:
        """The ratio with what decided on it."""
        is_broken = self.standing is Noninferiority.WORSE
        return format_judged(self.ratio, self.better, by_interval=is_broken)

    @property
    def standing(self) -> Noninferiority:
        """No worse if the one-sided bound keeps to the constraint, worse if the whole interval lies
        beyond it.
        """
        return {
            True: Noninferiority.NO_WORSE,
            False: Noninferiority.WORSE,
            None: Noninferiority.UNDECIDED,
        }[self.holds]


# The figures under the constraints, by variant.
Bounds = Mapping[str, list[Bound]]


def compute_constraint_bounds(
    campaign: Campaign, comparisons: Comparisons, preference: Preference
) -> Bounds:
    """Return every variant's figures under every constraint: with the interval and the bounds of
    the primary metric where the constraint is on one, else with a plain 95 % interval at the
    highest level.
    """
    bounds: dict[str, list[Bound]] = {}
    for constraint in preference.constraints:
        for name, bound in _collect_bounds(campaign, comparisons, constraint):
            if constraint.concerns(name, bound.workload):
                bounds.setdefault(name, []).append(bound)
    return bounds


def _collect_bounds(
    campaign: Campaign, comparisons: Comparisons, constraint: Condition
) -> Iterator[tuple[str, Bound]]:
    measure = CONDITIONS[constraint.measure]
    compared = [*comparisons.family, *comparisons.descriptive]
    primary = [c for c in compared if c.metric.measure.name == measure.name]
    for c in primary:
        if c.ratio:
            yield c.variant, Bound(constraint=constraint, metric=c.metric, ratio=c.ratio)
    baseline, *others = campaign.names
    for workload in () if primary else campaign.experiment.workloads:
        top = max(campaign.experiment.threads)
        metric = Metric(measure=measure, workload=workload, threads=top)
        values = read_values(campaign, metric)
        for name in others:
            if ratio := compare(values, name, baseline):
                yield name, Bound(constraint=constraint, metric=metric, ratio=ratio)


@dataclass(frozen=True, kw_only=True)
class RecommendationBasis:
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
    """The ``ending`` that ``comparisons`` with the ``baseline`` give, and the variant that it names
    (``subject``; None where it names none).

    ``contender``: see :func:`find_contender`; None where memory was not compared. ``variant``: what
    to run, None where the rule cannot say: the baseline failed, or the user has to choose. ``tie``:
    whether that is the baseline because no variant is shown to be better. ``excluded``: the
    variants that are shown not to qualify, with the reason. ``standings``: what each variant's
    ending rests on.
    """

    comparisons: Comparisons
    baseline: str
    ending: Ending
    subject: str | None
    contender: str | None
    variant: str | None
    tie: bool
    excluded: dict[str, str]
    faulty: list[str]
    preference: Preference
    standings: Mapping[str, VariantStanding]
    evidence: RecommendationBasis


def recommend(
    comparisons: Comparisons,
    baseline: str,
    preference: Preference = LEAST_MEMORY,
    evidence: RecommendationBasis | None = None,
) -> Recommendation:
    """Recommend by the rule. A variant with faults or a collapse is never recommended."""
    evidence = evidence or RecommendationBasis()
    names = list(dict.fromkeys(c.variant for c in comparisons.family))
    standings = {name: _judge_variant(comparisons, name, preference, evidence) for name in names}
    ending, subject = choose_ending(
        list(standings.values()), baseline_failed=baseline in comparisons.faulty
    )
    has_memory = "memory" in list_questions(comparisons)
    stays = ending in (Ending.STAY, Ending.NOT_SETTLED)
    excluded = {
        name: why
        for name in names
        if (why := _find_exclusion(comparisons, name, preference, evidence))
    }
    return Recommendation(
        comparisons=comparisons,
        baseline=baseline,
        ending=ending,
        subject=subject,
        contender=find_contender(standings, ending, subject) if has_memory else None,
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
    comparisons: Comparisons, name: str, preference: Preference, evidence: RecommendationBasis
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
        required += [Noninferiority.UNDECIDED] * (2 - len(list_questions(comparisons)))
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


def judge_comparison(comparison: Comparison, margin: float) -> Noninferiority:
    """Judge a comparison by its interval and its bound."""
    return judge_standing(comparison.ratio, comparison.metric.better, margin)


def _judge_constraints(
    name: str, comparisons: Comparisons, preference: Preference, bounds: Bounds
) -> list[Noninferiority]:
    """Return how a variant stands under each constraint that concerns it; undecided where there is
    no figure.
    """
    workloads = [m.workload for m in comparisons.metrics if m.workload]
    figures = bounds.get(name, [])
    standings = [b.standing for b in figures]
    for constraint in preference.constraints:
        concerned = all(word in (name, *workloads) for word in constraint.within)
        if concerned and not any(b.constraint == constraint for b in figures):
            standings.append(Noninferiority.UNDECIDED)
    return standings


def _find_exclusion(
    comparisons: Comparisons, name: str, preference: Preference, evidence: RecommendationBasis
) -> str:
    if name in evidence.collapsed:
        return f"its throughput collapses: {evidence.collapsed[name]}"
    if preference.constraints:
        broken = dict.fromkeys(
            b.constraint.text
            for b in evidence.bounds.get(name, [])
            if b.standing is Noninferiority.WORSE
        )
        return f"it is shown to break {' and '.join(broken)}" if broken else ""
    worse = [
        c.metric.title
        for c in select_judged(comparisons, name, evidence.left_out)
        if judge_comparison(c, evidence.margin) is Noninferiority.WORSE
    ]
    return f"it is shown to be worse in {listing(worse)}" if worse else ""


def gather_evidence(
    campaign: Campaign, comparisons: Comparisons, preference: Preference
) -> RecommendationBasis:
    """Return what the recommendation rests on, in the blocks that are judged. The margin that was
    stored before the first block is the one that counts; any other is exploratory.
    """
    judged = select_judged_blocks(campaign, comparisons.procedures)
    margin = preference.margin or campaign.facts.margin or DEFAULT_MARGIN
    return RecommendationBasis(
        margin=margin,
        exploratory=margin != campaign.facts.margin,
        bounds=compute_constraint_bounds(judged, comparisons, preference),
        collapsed=level_curves.describe_own_collapses(judged),
        left_out=frozenset(campaign.facts.duet.left_out),
    )
