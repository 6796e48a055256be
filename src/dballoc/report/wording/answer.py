"""The answer in words, for the terminal, the HTML page and the Markdown. Pure: from figures and
verdicts to sentences.
"""

import json
from dataclasses import dataclass, field

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.decisions.recommendation import Recommendation
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.tables import speed_metric
from dballoc.analysis.tables.baseline_comparison import Comparison, Comparisons, procedures
from dballoc.report.wording.ratios_as_text import change, count, detectable, listing, percent, times

# Endings after which no more blocks come. After any other the campaign may go on, and its verdicts
# are a look between.
_FINAL = ("planned", "decided", "budget")


# More speeds than these are counted, not told one by one; of those that differ so many are named.
MANY = 8
_NAMED = 6

DESIGNS = {
    "solo": "Solo: one server at a time has the machine; it gives throughput, response time and "
    "memory.",
    "duet": "Duet: baseline and variant at once, each on half of the CPUs, swapped; it gives the "
    "CPU per transaction.",
}


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
        """All of it but the notes, as plain sentences."""
        found = [f"{self.headline}. {self.reason}"]
        if self.variants:
            found.append(
                f"{self.against}: " + "; ".join(f"{v.name}: {v.text}" for v in self.variants) + "."
            )
        if self.floor:
            found.append(f"{self.floor.name}: {self.floor.text}.")
        return found


def progress(campaign: Campaign) -> Progress:
    """Of a campaign, finished or under way."""
    disturbed = 0
    for rows in (campaign.block, campaign.duet_block):
        last = {
            row["block"]: row["disturbed"]
            for row in rows.sort("block", "attempt").iter_rows(named=True)
        }
        disturbed += sum(1 for reason in last.values() if reason is not None)
    planned = {design: p.looks[-1] for design, p in procedures(campaign).items()}
    no_duet = json.loads(campaign.facts["duet"]).get("none")
    return Progress(
        blocks={d: campaign.blocks(d) for d in planned},
        planned=planned,
        ending=campaign.facts.get("ending"),
        disturbed=disturbed,
        no_duet=no_duet,
    )


def answer(
    comparisons: Comparisons, recommendation: Recommendation, baseline: str, done: Progress
) -> Answer:
    """Say what the campaign shows, and no more than that."""
    headline, reason = _recommend(comparisons, recommendation, baseline, done)
    names = list(dict.fromkeys(c.variant for c in comparisons.family))
    lines = [
        Line(name, _figures([c for c in comparisons.family if c.variant == name], comparisons))
        for name in names
    ]
    floor = [c for c in comparisons.floor if c.ratio and _spoken_of(c)]
    figures = " and ".join(_floor_figures(floor, comparisons))
    said = Line(f"The A/A floor, {baseline} against itself", figures) if floor else None
    notes = [f"Rule: {recommendation.preference.rule}.", *_notes(comparisons, baseline, done)]
    return Answer(
        headline=headline,
        reason=reason,
        against=f"Against {baseline}",
        variants=lines,
        floor=said,
        notes=notes,
    )


def verdict_words(comparison: Comparison, comparisons: Comparisons) -> str:
    """The verdict as it is printed everywhere; where there can be none, why."""
    baseline = comparisons.floor[0].variant
    for name, who in ((comparison.variant, ""), (baseline, f" of {baseline}")):
        if name in comparisons.faulty:
            return f"no verdict: {fault_words(comparisons.faulty[name], who)}"
    if comparison.ratio is None:
        return "no figures yet"
    if comparison.ratio.blocks < 2:
        return "no verdict from one block"
    if comparison.verdict is Verdict.UNDECIDED:
        return (
            f"{Verdict.UNDECIDED} (smallest detectable: {detectable(comparison.ratio.detectable)})"
        )
    return comparison.verdict.value


def fault_words(k_of_n: tuple[int, int], who: str = "") -> str:
    """``2 of 6 trials ended in a fault``."""
    return f"{k_of_n[0]} of {k_of_n[1]} trials{who} ended in a fault"


def ratio_words(comparison: Comparison) -> str:
    """``0.970 [0.962, 0.978]``; without an interval from one block."""
    return _times(comparison) if comparison.ratio else times(None)


def _recommend(
    comparisons: Comparisons, recommendation: Recommendation, baseline: str, done: Progress
) -> tuple[str, str]:
    blocks = max((c.ratio.blocks for c in comparisons.family if c.ratio), default=0)
    if not comparisons.family:
        return "Nothing to compare", f"{baseline}, the baseline, is the only variant."
    if recommendation.variant is None:
        return (
            "No recommendation",
            f"{baseline} is the baseline, and "
            f"{fault_words(comparisons.faulty[baseline], ' of it')}.",
        )
    if blocks == 0:
        both = f"{baseline} twice and another variant, without a fault"
        return "No recommendation", f"No block has {both}." if any(
            done.blocks.values()
        ) else f"No block is complete yet: none has {both}."
    if blocks == 1:
        return (
            "No recommendation yet",
            "One block shows figures but decides nothing; two give intervals.",
        )
    memory = any(c.metric.key == "rss_peak" for c in comparisons.family)
    if not memory and recommendation.preference.objective == "memory":
        return _speed_alone(comparisons, baseline, done)
    lead = "Recommended" if done.final else "So far"
    if recommendation.tie:
        undecided = _undecided(comparisons, recommendation)
        return f"{'Undecided' if undecided else lead}: stay with {baseline}", _tie(
            comparisons, recommendation, baseline
        )
    name, preference = recommendation.variant, recommendation.preference
    aimed = _aimed_at(comparisons, recommendation, name)
    figures = (
        _counted(aimed)
        if len(aimed) > MANY
        else listing([_of_baseline(c, comparisons, baseline) for c in aimed])
    )
    best = "has the least peak RSS" if preference.objective == "memory" else "is the fastest"
    words = f"Of the variants that are not shown to {preference.clause}, {name} {best}: {figures}."
    return f"{lead}: {name}", " ".join(
        [words, *_bounds(recommendation, name), *_open(comparisons, recommendation, name)]
    )


def _speed_alone(comparisons: Comparisons, baseline: str, done: Progress) -> tuple[str, str]:
    """Where memory was not compared there is no recommendation, but the cost of a transaction."""
    cheaper = [
        c
        for c in comparisons.family
        if c.verdict is Verdict.LOWER and c.variant not in comparisons.faulty
    ]
    if not cheaper:
        return (
            f"No variant is shown to need less CPU per transaction than {baseline}",
            "Memory was not compared: that is solo's.",
        )
    best = min(cheaper, key=lambda c: c.ratio.estimate if c.ratio else 1.0)
    return (
        f"{'Least' if done.final else 'So far least'} CPU per transaction: {best.variant}",
        f"{_times(best)} of {baseline}'s{_where(best, comparisons)}. Memory was not compared: that "
        "is solo's.",
    )


def _tie(comparisons: Comparisons, recommendation: Recommendation, baseline: str) -> str:
    memory = recommendation.preference.objective == "memory"
    left_out = recommendation.excluded | dict.fromkeys(recommendation.faulty, "faults")
    better = "to need less peak RSS" if memory else "to be faster"
    words = [f"No variant is shown {better} than {baseline}, and ties go to the baseline."]
    found = [c for n in left_out for c in _aimed_at(comparisons, recommendation, n)]
    if shown := list(dict.fromkeys(c.variant for c in found if _better(c))):
        excluded = [f"{n} ({left_out[n]})" for n in shown]
        what = "Less peak RSS" if memory else "More speed"
        words = [
            f"{what} is shown for {listing(excluded)} alone, which the rule leaves out; ties go to "
            "the baseline."
        ]
    if undecided := _undecided(comparisons, recommendation):
        words.append(f"{'Peak RSS' if memory else 'Speed'} is undecided for {listing(undecided)}.")
    return " ".join(words)


def _aimed_at(
    comparisons: Comparisons, recommendation: Recommendation, name: str
) -> list[Comparison]:
    """What the rule's aim looks at: peak RSS, or the speed in every workload; nothing of the
    baseline.
    """
    if recommendation.preference.objective == "memory":
        return [
            c
            for c in comparisons.family
            if c.variant == name and c.metric.key == "rss_peak" and c.ratio
        ]
    return [c for c in speed_metric.of(comparisons, name) if c.ratio]


def _better(comparison: Comparison) -> bool:
    return (
        speed_metric.shown_faster(comparison)
        if comparison.metric.workload
        else comparison.verdict is Verdict.LOWER
    )


def _undecided(comparisons: Comparisons, recommendation: Recommendation) -> list[str]:
    """The variants that more blocks could still make the choice."""
    left_out = {*recommendation.excluded, *recommendation.faulty}
    found = [
        c
        for v in dict.fromkeys(c.variant for c in comparisons.family)
        for c in _aimed_at(comparisons, recommendation, v)
    ]
    return list(
        dict.fromkeys(
            c.variant for c in found if c.verdict is Verdict.UNDECIDED and c.variant not in left_out
        )
    )


def _of_baseline(comparison: Comparison, comparisons: Comparisons, baseline: str) -> str:
    what = f"{_short(comparison, comparisons)} " if comparison.metric.workload else ""
    return f"{what}{_times(comparison)} of {baseline}'s"


def _bounds(recommendation: Recommendation, name: str) -> list[str]:
    """The chosen one's figures under the constraints that the user set."""
    said = []
    for b in recommendation.bounds.get(name, []):
        where = f" in {b.workload}" if b.workload else ""
        met = b.low is not None and b.high is not None and b.constraint.holds(b.low, b.high)
        words = "holds" if met else "is not shown either way"
        said.append(f"{b.constraint.text}{where} {words}: {times(b.ratio, b.low, b.high)}.")
    return said


def _open(comparisons: Comparisons, recommendation: Recommendation, name: str) -> list[str]:
    """What is left open of the recommended variant on the other side: its speed, or its memory."""
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
        f"Its {_short(c, comparisons)} is undecided: between {change(c.ratio.low)} % and "
        f"{change(c.ratio.high)} %."
        for c in comparisons.family
        if c.variant == name
        and c.ratio
        and c.verdict is Verdict.UNDECIDED
        and (c.metric.workload is not None if memory else c.metric.key == "rss_peak")
    ]


def _figures(mine: list[Comparison], comparisons: Comparisons) -> str:
    """Throughput and peak RSS with their verdicts; the reason once where there is none."""
    spoken = [c for c in mine if _spoken_of(c)]
    speeds = [c for c in spoken if c.metric.workload is not None and c.ratio]
    if len(speeds) > MANY:
        said = {v for c in speeds if (v := verdict_words(c, comparisons)).startswith("no verdict")}
        words = f"{_range(speeds)}, {said.pop()}" if said else _counted(speeds)
        rest = [c for c in spoken if c.metric.workload is None]
        return ", and ".join([words, *([_figures(rest, comparisons)] if rest else [])])
    verdicts = [verdict_words(c, comparisons) for c in spoken]
    if all(c.ratio is None for c in spoken):
        return verdicts[0]
    if len(set(verdicts)) == 1 and verdicts[0].startswith("no verdict"):
        return (
            " and ".join(f"{_short(c, comparisons)} {ratio_words(c)}" for c in spoken)
            + f", {verdicts[0]}"
        )
    parts = [
        f"{_short(c, comparisons)} {ratio_words(c)}, {v}"
        for c, v in zip(spoken, verdicts, strict=True)
    ]
    return ", and ".join(parts)


def _counted(speeds: list[Comparison]) -> str:
    """The speed in many workloads: how often it is shown to be higher or lower, and the range of
    its ratios.
    """
    faster = [c for c in speeds if speed_metric.shown_faster(c)]
    slower = [c for c in speeds if speed_metric.shown_slower(c)]
    named = [
        f"{what} in {len(found)}"
        + (f" ({listing([_metric_name(c) for c in found])})" if len(found) <= _NAMED else "")
        for what, found in (("faster", faster), ("slower", slower))
        if found
    ]
    shown = f"shown to be {' and '.join(named)}" if named else "none shown to differ"
    return f"{_range(speeds)}, {shown}"


def _range(speeds: list[Comparison]) -> str:
    ratios = [found.estimate for c in speeds if (found := speed_metric.speed(c))]
    return f"{len(speeds)} speeds between {times(min(ratios))} and {times(max(ratios))}"


def _metric_name(comparison: Comparison) -> str:
    return f"{comparison.metric.workload}{', duet' if comparison.metric.design == 'duet' else ''}"


def _floor_figures(floor: list[Comparison], comparisons: Comparisons) -> list[str]:
    speeds = [c for c in floor if c.metric.workload is not None and c.ratio]
    if len(speeds) <= MANY:
        return [f"{_short(c, comparisons)} {_times(c)}" for c in floor]
    return [
        _range(speeds),
        *(f"{_short(c, comparisons)} {_times(c)}" for c in floor if c.metric.workload is None),
    ]


def _spoken_of(comparison: Comparison) -> bool:
    """Throughput and peak RSS; the rest is in the tables."""
    return comparison.metric.workload is not None or comparison.metric.key == "rss_peak"


def _short(comparison: Comparison, comparisons: Comparisons) -> str:
    if comparison.metric.workload is None:
        return "peak RSS"
    what = "CPU per transaction" if comparison.metric.design == "duet" else "throughput"
    return f"{what}{_where(comparison, comparisons)}"


def _where(comparison: Comparison, comparisons: Comparisons) -> str:
    """The workload, where there are several."""
    several = len({m.workload for m in comparisons.metrics if m.workload}) > 1
    return f" in {comparison.metric.workload}" if several else ""


def _times(comparison: Comparison) -> str:
    assert comparison.ratio
    return times(comparison.ratio.estimate, comparison.ratio.low, comparison.ratio.high)


def _notes(comparisons: Comparisons, baseline: str, done: Progress) -> list[str]:
    notes = []
    shown = [
        c
        for c in comparisons.floor
        if c.ratio and c.ratio.blocks > 1 and c.verdict in (Verdict.HIGHER, Verdict.LOWER)
    ]
    if shown:
        what = listing(
            [_short(c, comparisons) if _spoken_of(c) else c.metric.title for c in shown[:MANY]]
        )
        what += f" and {len(shown) - MANY} more" if len(shown) > MANY else ""
        notes.append(
            f"{baseline} differs from itself ({what}): something drifts; mistrust differences as "
            "small as that."
        )
    if not done.final:
        why = "was interrupted" if done.ending == "interrupted" else "is not finished"
        note = f"The campaign {why}: {done.words}."
        for design, procedure in comparisons.procedures.items():
            if done.blocks[design] not in procedure.looks:
                looks = listing([str(look) for look in procedure.looks])
                note += (
                    f" {design.capitalize()} verdicts are judged after {looks} blocks; this is a "
                    "look in between, not binding."
                )
        notes.append(note)
    elif not done.complete:
        why = (
            "Every comparison was decided" if done.ending == "decided" else "The budget was used up"
        )
        notes.append(f"{why}: {done.words} that were planned.")
    if done.no_duet:
        notes.append(
            "No duet was played, so the CPU per transaction was not compared closely: "
            f"{done.no_duet}."
        )
    if done.disturbed:
        blocks = f"{done.disturbed} of {count(sum(done.blocks.values()), 'block')}"
        notes.append(f"Disturbed by other work on the machine, and counted all the same: {blocks}.")
    for design, procedure in comparisons.procedures.items():
        judged = f"{count(procedure.family, 'comparison')} at {count(len(procedure.looks), 'look')}"
        several = procedure.family * len(procedure.looks) > 1
        together = (
            f", so that all {judged} together err in 5 % of campaigns at most" if several else ""
        )
        notes.append(
            f"{DESIGNS[design]} Intervals at {percent(procedure.confidence, 2)}{together}."
        )
    return notes
