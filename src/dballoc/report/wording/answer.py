"""The answer in words, for the terminal, the HTML page and the Markdown. Pure: from figures and
verdicts to sentences.
"""

import json
from dataclasses import dataclass, field

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.recommendation import Recommendation
from dballoc.analysis.decisions.sequential_test import CPU, MEMORY, THROUGHPUT, Procedure
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.tables import speed_metric
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, declare_procedures
from dballoc.numbers import count, listing, percent
from dballoc.report.wording.ratios_as_text import format_change, format_detectable, format_ratio

# Endings after which no more blocks come. After any other the campaign may go on, and its verdicts
# are interim.
_FINAL = ("planned", "decided", "budget")


# More speeds than MANY are counted and not listed; of those that differ at most _NAMED are named.
MANY = 8
_NAMED = 6

DESIGNS = {
    "solo": "Solo: one server at a time has the machine; it gives throughput, response time and "
    "memory.",
    "duet": "Duet: baseline and variant at once, each on half of the CPUs, swapped; it gives the "
    "CPU per transaction.",
}


_MEMORY_NOT_COMPARED = "Memory was not compared: that takes solo blocks."


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the campaign is: by design finished ``blocks`` of ``planned``; ``disturbed``: counted
    although disturbed. ``no_duet``: why a campaign that might have played duets did not.
    """

    blocks: dict[str, int]
    planned: dict[str, int]
    ending: str | None = None
    disturbed: int = 0
    no_duet: str | None = None

    @property
    def final(self) -> bool:
        """Whether the campaign has come to its own end."""
        return self.complete or self.ending in _FINAL

    @property
    def complete(self) -> bool:
        """Whether every planned block is there."""
        return all(self.blocks[design] >= self.planned[design] for design in self.planned)

    @property
    def words(self) -> str:
        """``6 of 6 solo blocks, 8 of 10 duet blocks``."""
        return ", ".join(
            f"{self.blocks[d]} of {count(n, f'{d} block')}" for d, n in self.planned.items()
        )


@dataclass(frozen=True)
class Line:
    """What is said of one variant."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """``headline`` and ``reason``: what is recommended and why; one line a variant; the A/A floor;
    what to know.
    """

    headline: str
    reason: str
    against: str
    variants: list[Line]
    floor: Line | None
    notes: list[str] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """Return all of it but the notes, as plain sentences."""
        sentences = [f"{self.headline}. {self.reason}"]
        if self.variants:
            sentences.append(
                f"{self.against}: " + "; ".join(f"{v.name}: {v.text}" for v in self.variants) + "."
            )
        if self.floor:
            sentences.append(f"{self.floor.name}: {self.floor.text}.")
        return sentences


def measure_progress(campaign: Campaign) -> Progress:
    """Return how far a campaign is, finished or under way."""
    disturbed = 0
    for rows in (campaign.block, campaign.duet_block):
        last = {
            row["block"]: row["disturbed"]
            for row in rows.sort("block", "attempt").iter_rows(named=True)
        }
        disturbed += sum(1 for reason in last.values() if reason is not None)
    planned = {design: p.goal for design, p in declare_procedures(campaign).items()}
    no_duet = json.loads(campaign.facts["duet"]).get("none")
    return Progress(
        blocks={d: campaign.blocks(d) for d in planned},
        planned=planned,
        ending=campaign.facts.get("ending"),
        disturbed=disturbed,
        no_duet=no_duet,
    )


def compose_answer(
    comparisons: Comparisons,
    recommendation: Recommendation,
    baseline: str,
    progress: Progress,
) -> Answer:
    """Say what the campaign shows, and no more than that."""
    headline, reason = _compose_recommendation(comparisons, recommendation, baseline, progress)
    names = list(dict.fromkeys(c.variant for c in comparisons.family))
    lines = [
        Line(
            name,
            _describe_figures([c for c in comparisons.family if c.variant == name], comparisons),
        )
        for name in names
    ]
    floor = [c for c in comparisons.floor if c.ratio and _is_in_answer(c)]
    figures = " and ".join(_describe_floor(floor, comparisons))
    floor_line = Line(f"The A/A floor, {baseline} against itself", figures) if floor else None
    notes = [
        f"Rule: {recommendation.preference.rule}.",
        *_compose_notes(comparisons, baseline, progress),
    ]
    return Answer(
        headline=headline,
        reason=reason,
        against=f"Against {baseline}",
        variants=lines,
        floor=floor_line,
        notes=notes,
    )


def describe_verdict(comparison: Comparison, comparisons: Comparisons) -> str:
    """Return the verdict as it is printed everywhere; where there can be none, why."""
    baseline = comparisons.floor[0].variant
    for name, whose in ((comparison.variant, ""), (baseline, f" of {baseline}")):
        if name in comparisons.faulty:
            return f"no verdict: {describe_faults(comparisons.faulty[name], whose)}"
    if comparison.ratio is None:
        return "no figures yet"
    if comparison.ratio.blocks < 2:
        return "no verdict from one block"
    if not comparison.judged:
        return comparison.verdict.value
    if comparison.verdict is Verdict.UNDECIDED:
        smallest = format_detectable(comparison.ratio.detectable)
        return f"{Verdict.UNDECIDED} (smallest detectable: {smallest})"
    return comparison.verdict.value


def describe_faults(k_of_n: tuple[int, int], whose: str = "") -> str:
    """Return ``2 of 6 trials ended in a fault``."""
    return f"{k_of_n[0]} of {k_of_n[1]} trials{whose} ended in a fault"


def format_comparison(comparison: Comparison) -> str:
    """Return ``0.970 [0.962, 0.978]``; without an interval from one block."""
    return _format_interval(comparison) if comparison.ratio else format_ratio(None)


def _compose_recommendation(
    comparisons: Comparisons,
    recommendation: Recommendation,
    baseline: str,
    progress: Progress,
) -> tuple[str, str]:
    blocks = max((c.ratio.blocks for c in comparisons.family if c.ratio), default=0)
    if not comparisons.family:
        return "Nothing to compare", f"{baseline}, the baseline, is the only variant."
    if recommendation.variant is None:
        return (
            "No recommendation",
            f"{baseline} is the baseline, and "
            f"{describe_faults(comparisons.faulty[baseline], ' of it')}.",
        )
    if blocks == 0:
        both = f"{baseline} twice and another variant, without a fault"
        return "No recommendation", f"No block has {both}." if any(
            progress.blocks.values()
        ) else f"No block is complete yet: none has {both}."
    if blocks == 1:
        return (
            "No recommendation yet",
            "One block shows figures but decides nothing; two give intervals.",
        )
    if not any(c.judged for c in comparisons.family):
        return (
            "Not judged yet",
            f"Verdicts are given at declared numbers of blocks: {_list_looks(comparisons)}.",
        )
    memory = any(c.metric.key == "rss_peak" for c in comparisons.family)
    if not memory and recommendation.preference.objective == "memory":
        return _compose_cpu_ranking(comparisons, baseline, progress)
    lead = "Recommended" if progress.final else "So far"
    if recommendation.tie:
        undecided = _list_undecided(comparisons, recommendation)
        return f"{'Undecided' if undecided else lead}: stay with {baseline}", _explain_tie(
            comparisons, recommendation, baseline
        )
    name, preference = recommendation.variant, recommendation.preference
    aimed = _select_aimed_at(comparisons, recommendation, name)
    figures = (
        _count_speeds(aimed)
        if len(aimed) > MANY
        else listing([_relate_to_baseline(c, comparisons, baseline) for c in aimed])
    )
    best = "has the least peak RSS" if preference.objective == "memory" else "is the fastest"
    words = f"Of the variants that are not shown to {preference.clause}, {name} {best}: {figures}."
    return f"{lead}: {name}", " ".join(
        [
            words,
            *_describe_bounds(recommendation, name),
            *_describe_open_side(comparisons, recommendation, name),
        ]
    )


def _compose_cpu_ranking(
    comparisons: Comparisons, baseline: str, progress: Progress
) -> tuple[str, str]:
    """Return headline and reason where memory was not compared: no recommendation, but the variant
    that needs the least CPU per transaction.
    """
    cheaper = [
        c
        for c in comparisons.family
        if c.verdict is Verdict.LOWER and c.variant not in comparisons.faulty
    ]
    if not cheaper:
        return (
            f"No variant is shown to need less CPU per transaction than {baseline}",
            _MEMORY_NOT_COMPARED,
        )
    best = min(cheaper, key=lambda c: c.ratio.estimate if c.ratio else 1.0)
    return (
        f"{'Least' if progress.final else 'So far least'} CPU per transaction: {best.variant}",
        f"{_format_interval(best)} of {baseline}'s{_name_workload(best, comparisons)}. "
        f"{_MEMORY_NOT_COMPARED}",
    )


def _explain_tie(comparisons: Comparisons, recommendation: Recommendation, baseline: str) -> str:
    memory = recommendation.preference.objective == "memory"
    left_out = recommendation.excluded | dict.fromkeys(recommendation.faulty, "faults")
    better = "to need less peak RSS" if memory else "to be faster"
    words = [f"No variant is shown {better} than {baseline}, and ties go to the baseline."]
    excluded_figures = [
        c for n in left_out for c in _select_aimed_at(comparisons, recommendation, n)
    ]
    if shown := list(dict.fromkeys(c.variant for c in excluded_figures if _is_better(c))):
        excluded = [f"{n} ({left_out[n]})" for n in shown]
        advantage = "Less peak RSS" if memory else "More speed"
        words = [
            f"{advantage} is shown for {listing(excluded)} alone, which the rule leaves out; ties "
            "go to the baseline."
        ]
    if undecided := _list_undecided(comparisons, recommendation):
        words.append(f"{'Peak RSS' if memory else 'Speed'} is undecided for {listing(undecided)}.")
    return " ".join(words)


def _select_aimed_at(
    comparisons: Comparisons, recommendation: Recommendation, name: str
) -> list[Comparison]:
    """Return the comparisons that the rule aims at: peak RSS, or the speed in every workload; none
    for the baseline.
    """
    if recommendation.preference.objective == "memory":
        return [
            c
            for c in comparisons.family
            if c.variant == name and c.metric.key == "rss_peak" and c.ratio
        ]
    return [c for c in speed_metric.select_speed_comparisons(comparisons, name) if c.ratio]


def _is_better(comparison: Comparison) -> bool:
    return (
        speed_metric.is_shown_faster(comparison)
        if comparison.metric.workload
        else comparison.verdict is Verdict.LOWER
    )


def _list_undecided(comparisons: Comparisons, recommendation: Recommendation) -> list[str]:
    """Return the variants that more blocks could still make the choice."""
    left_out = {*recommendation.excluded, *recommendation.faulty}
    aimed = [
        c
        for v in dict.fromkeys(c.variant for c in comparisons.family)
        for c in _select_aimed_at(comparisons, recommendation, v)
    ]
    return list(
        dict.fromkeys(
            c.variant for c in aimed if c.verdict is Verdict.UNDECIDED and c.variant not in left_out
        )
    )


def _relate_to_baseline(comparison: Comparison, comparisons: Comparisons, baseline: str) -> str:
    metric_name = f"{_name_metric(comparison, comparisons)} " if comparison.metric.workload else ""
    return f"{metric_name}{_format_interval(comparison)} of {baseline}'s"


def _describe_bounds(recommendation: Recommendation, name: str) -> list[str]:
    """Return the recommended variant's figures under the constraints that the user set."""
    sentences = []
    for b in recommendation.bounds.get(name, []):
        where = f" in {b.workload}" if b.workload else ""
        met = b.low is not None and b.high is not None and b.constraint.holds(b.low, b.high)
        words = "holds" if met else "is not shown either way"
        sentences.append(
            f"{b.constraint.text}{where} {words}: {format_ratio(b.ratio, b.low, b.high)}."
        )
    return sentences


def _describe_open_side(
    comparisons: Comparisons, recommendation: Recommendation, name: str
) -> list[str]:
    """Return what is undecided of the recommended variant on the other side: its speed, or its
    memory.
    """
    memory = recommendation.preference.objective == "memory"
    speeds = [
        c
        for c in comparisons.family
        if c.variant == name and c.ratio and c.metric.workload is not None
    ]
    if memory and len(speeds) > MANY:
        undecided = sum(c.verdict is Verdict.UNDECIDED for c in speeds)
        return (
            [f"Its speed is undecided in {undecided} of {len(speeds)} comparisons."]
            if undecided
            else []
        )
    return [
        f"Its {_name_metric(c, comparisons)} is undecided: between {format_change(c.ratio.low)} % "
        f"and {format_change(c.ratio.high)} %."
        for c in comparisons.family
        if c.variant == name
        and c.ratio
        and c.verdict is Verdict.UNDECIDED
        and (c.metric.workload is not None if memory else c.metric.key == "rss_peak")
    ]


def _describe_figures(variant_figures: list[Comparison], comparisons: Comparisons) -> str:
    """Return throughput and peak RSS with their verdicts; the reason once where there is none."""
    spoken = [c for c in variant_figures if _is_in_answer(c)]
    speeds = [c for c in spoken if c.metric.workload is not None and c.ratio]
    if len(speeds) > MANY:
        reasons = {
            v for c in speeds if (v := describe_verdict(c, comparisons)).startswith("no verdict")
        }
        words = f"{_describe_range(speeds)}, {reasons.pop()}" if reasons else _count_speeds(speeds)
        rest = [c for c in spoken if c.metric.workload is None]
        return ", and ".join([words, *([_describe_figures(rest, comparisons)] if rest else [])])
    verdicts = [describe_verdict(c, comparisons) for c in spoken]
    if all(c.ratio is None for c in spoken):
        return verdicts[0]
    if len(set(verdicts)) == 1 and verdicts[0].startswith("no verdict"):
        return (
            " and ".join(f"{_name_metric(c, comparisons)} {format_comparison(c)}" for c in spoken)
            + f", {verdicts[0]}"
        )
    parts = [
        f"{_name_metric(c, comparisons)} {format_comparison(c)}, {v}"
        for c, v in zip(spoken, verdicts, strict=True)
    ]
    return ", and ".join(parts)


def _count_speeds(speeds: list[Comparison]) -> str:
    """Return the speed in many workloads: how often it is shown to be higher or lower, and the
    range of its ratios.
    """
    faster = [c for c in speeds if speed_metric.is_shown_faster(c)]
    slower = [c for c in speeds if speed_metric.is_shown_slower(c)]
    named = [
        f"{direction} in {len(shown_speeds)}"
        + (
            f" ({listing([_name_workload_and_design(c) for c in shown_speeds])})"
            if len(shown_speeds) <= _NAMED
            else ""
        )
        for direction, shown_speeds in (("faster", faster), ("slower", slower))
        if shown_speeds
    ]
    shown = f"shown to be {' and '.join(named)}" if named else "none shown to differ"
    return f"{_describe_range(speeds)}, {shown}"


def _describe_range(speeds: list[Comparison]) -> str:
    ratios = [speed.estimate for c in speeds if (speed := speed_metric.compute_speed(c))]
    return (
        f"{len(speeds)} speeds between {format_ratio(min(ratios))} and {format_ratio(max(ratios))}"
    )


def _name_workload_and_design(comparison: Comparison) -> str:
    return f"{comparison.metric.workload}{', duet' if comparison.metric.design == 'duet' else ''}"


def _describe_floor(floor: list[Comparison], comparisons: Comparisons) -> list[str]:
    speeds = [c for c in floor if c.metric.workload is not None and c.ratio]
    if len(speeds) <= MANY:
        return [f"{_name_metric(c, comparisons)} {_format_interval(c)}" for c in floor]
    return [
        _describe_range(speeds),
        *(
            f"{_name_metric(c, comparisons)} {_format_interval(c)}"
            for c in floor
            if c.metric.workload is None
        ),
    ]


def _is_in_answer(comparison: Comparison) -> bool:
    """Whether the answer names the metric: throughput and peak RSS; the rest is in the tables."""
    return comparison.metric.workload is not None or comparison.metric.key == "rss_peak"


def _name_metric(comparison: Comparison, comparisons: Comparisons) -> str:
    if comparison.metric.workload is None:
        return "peak RSS"
    metric_name = "CPU per transaction" if comparison.metric.design == "duet" else "throughput"
    return f"{metric_name}{_name_workload(comparison, comparisons)}"


def _name_workload(comparison: Comparison, comparisons: Comparisons) -> str:
    """Return the workload, where there are several."""
    several = len({m.workload for m in comparisons.metrics if m.workload}) > 1
    return f" in {comparison.metric.workload}" if several else ""


def _format_interval(comparison: Comparison) -> str:
    assert comparison.ratio
    return format_ratio(comparison.ratio.estimate, comparison.ratio.low, comparison.ratio.high)


def _compose_notes(comparisons: Comparisons, baseline: str, progress: Progress) -> list[str]:
    notes = []
    shown = [
        c
        for c in comparisons.floor
        if c.ratio and c.ratio.has_interval and c.verdict in (Verdict.HIGHER, Verdict.LOWER)
    ]
    if shown:
        drifting = listing(
            [
                _name_metric(c, comparisons) if _is_in_answer(c) else c.metric.title
                for c in shown[:MANY]
            ]
        )
        drifting += f" and {len(shown) - MANY} more" if len(shown) > MANY else ""
        notes.append(
            f"{baseline} differs from itself ({drifting}): something drifts; mistrust differences "
            "as small as that."
        )
    if not progress.final:
        why = "was interrupted" if progress.ending == "interrupted" else "is not finished"
        note = f"The campaign {why}: {progress.words}."
        for design, procedure in comparisons.procedures.items():
            if procedure.version == 1 and progress.blocks[design] not in procedure.looks:
                looks = listing([str(look) for look in procedure.looks])
                note += (
                    f" {design.capitalize()} verdicts are judged after {looks} blocks; this is an "
                    "interim look, not binding."
                )
        notes.append(note)
    elif not progress.complete:
        why = (
            "Every comparison was decided"
            if progress.ending == "decided"
            else "The budget was used up"
        )
        notes.append(f"{why}: {progress.words} that were planned.")
    if progress.no_duet:
        notes.append(
            "No duet was played, so the CPU per transaction was not compared closely: "
            f"{progress.no_duet}."
        )
    if progress.disturbed:
        blocks = f"{progress.disturbed} of {count(sum(progress.blocks.values()), 'block')}"
        notes.append(f"Disturbed by other work on the machine, but counted all the same: {blocks}.")
    notes += _describe_looks(comparisons)
    for design, procedure in comparisons.procedures.items():
        judged = (
            f"{count(procedure.family, 'comparison')} at {count(len(procedure.spending), 'look')}"
        )
        several = procedure.family * len(procedure.spending) > 1
        together = (
            f", so that all {judged} together err in 5 % of campaigns at most" if several else ""
        )
        notes.append(
            f"{DESIGNS[design]} Intervals at {describe_levels(procedure, design)}{together}."
        )
    return notes


# The measures of each design, as their levels are named.
_MEASURES = {
    "solo": {MEMORY: "peak RSS", THROUGHPUT: "throughput"},
    "duet": {CPU: "CPU per transaction"},
}


def describe_levels(procedure: Procedure, design: str) -> str:
    """Return the level of a design's intervals, or that of each of its measures."""
    if procedure.version == 1:
        return percent(procedure.confidence, 2)
    levels = procedure.levels
    return listing(
        [
            f"{percent(levels[measure], 2)} ({name})"
            for measure, name in _MEASURES[design].items()
            if measure in levels
        ]
    )


def _describe_looks(comparisons: Comparisons) -> list[str]:
    """Say at which number of blocks the designs were judged that have more, or none."""
    notes = []
    for design, p in comparisons.procedures.items():
        if p.version > 1 and p.reached != p.blocks:
            judged = f"as of {p.reached} blocks" if p.reached else "not judged yet"
            coming = [str(look) for look in p.spending if look > p.blocks]
            then = f"; the next look is at {coming[0]}" if coming else ""
            notes.append(
                f"{design.capitalize()} verdicts and intervals are {judged}, of {p.blocks} "
                f"finished{then}: between two looks those of the last one stand."
            )
    return notes


def _list_looks(comparisons: Comparisons) -> str:
    return listing(
        [
            f"{listing([str(look) for look in p.looks])} {design} blocks"
            for design, p in comparisons.procedures.items()
        ]
    )
