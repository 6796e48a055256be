"""What a campaign of replays answers, in words: which malloc has the least peak heap, and how far
the replay was from the recorded process. Pure.
"""

from dataclasses import dataclass, replace
from operator import itemgetter

import polars as pl

from dballoc.document.charts import Variants, draw, make_axis, make_chart, make_tips
from dballoc.document.model import Answer, Column, Figure, Section, Table, tabulate
from dballoc.ground.numbers import count, listing, mebibytes, number, percent, with_unit
from dballoc.questions.campaign.answer.answer_table import explain_cells, make_answer_table
from dballoc.questions.campaign.answer.ending import compose_headline, explain_ending
from dballoc.questions.campaign.answer.recommendation import Recommendation
from dballoc.questions.compare.answer_words import Progress, describe_verdict, measure_progress
from dballoc.questions.compare.baseline_comparison import Comparisons
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import PEAK
from dballoc.questions.compare.ratios_as_text import format_ratio
from dballoc.questions.replay.figures import CycleGrowth, Cycles, Fidelity, HeapGrowth
from dballoc.questions.statistics.ratio_interval import DESCRIPTIVE_CONFIDENCE
from dballoc.store.replay_facts import ReplayFacts

_HEIGHT = 280


def describe_growth(growth: CycleGrowth) -> str:
    """Return one sentence on which mallocs creep, and how far the others might at most."""
    cycles = growth.cycles
    shown = [words for _, words in sorted(map(_describe_creep, growth.growths), key=itemgetter(0))]
    cycle = count(len(cycles.marks), cycles.name)
    return f"From one {cycles.name} to the next, of {cycle}: {'; '.join(shown)}."


def _describe_creep(growth: HeapGrowth) -> tuple[int, str]:
    """Return what is shown of a malloc, behind its place among the others."""
    if growth.interval is None:
        return 3, f"{growth.variant} changes by {_format(growth.slope)} in its one replay"
    low, high = growth.interval
    if low <= 0 <= high:
        return 2, f"{growth.variant} is not seen to creep, at most {_format(high)}"
    slope, *ends = map(with_unit, (abs(growth.slope), *sorted(map(abs, growth.interval))))
    verb = "creeps" if low > 0 else "shrinks"
    return low <= 0, f"{growth.variant} {verb} by {slope} [{', '.join(ends)}]"


def make_growth_section(growth: CycleGrowth, facts: ReplayFacts) -> Section:
    """Return the section with its sentences, chart and table."""
    cycles = growth.cycles
    return Section(
        key="growth",
        title=f"Growth from {cycles.name} to {cycles.name}",
        text=[describe_growth(growth), *_list_reservations(facts)],
        figures=[_draw_growth(growth.growths, growth.ends, cycles)],
        tables=[_tabulate_growth(growth.growths, cycles)],
    )


def _list_reservations(facts: ReplayFacts) -> list[str]:
    if facts.keeps_the_clock or not facts.decaying:
        return []
    return [
        f"This replay does not keep the clock: {listing(list(facts.decaying))} would give back "
        "more in the pauses that it leaves out, so their growth may be less than it says."
    ]


def _format(size: float) -> str:
    """Format bytes that may be negative."""
    return f"−{with_unit(-size)}" if size < 0 else with_unit(max(0.0, size))


def _tabulate_growth(growths: list[HeapGrowth], cycles: Cycles) -> Table:
    name = cycles.name
    columns = (
        Column("variant"),
        Column(f"heap after the last {name} but one, MiB", "heap", mebibytes),
        Column(f"growth a {name}", "slope", _format),
        Column(
            f"{percent(DESCRIPTIVE_CONFIDENCE, 0)} interval",
            "interval",
            lambda ends: f"[{', '.join(map(_format, ends))}]",
        ),
        Column("replays"),
    )
    caption = (
        f"The heap at the end of each {name}, when the next begins, from {name} "
        f"{cycles.settled} on: the least-squares slope of each replay, their mean, and "
        "Student's interval over the replays. It speaks of this trace alone."
    )
    return tabulate("Growth", columns, growths, caption=caption)


def _draw_growth(growths: list[HeapGrowth], ends: pl.DataFrame, cycles: Cycles) -> Figure:
    """Draw the heap at the ends of the cycles, less that at the first that counts."""
    means = ends.group_by("variant", "cycle").agg(pl.col("heap").mean()).sort("variant", "cycle")
    first = means.filter(cycle=cycles.settled).select("variant", start="heap")
    rows = [
        {
            "variant": r["variant"],
            "cycle": r["cycle"],
            "mib": (r["heap"] - r["start"]) / 2**20,
            "words": f"{mebibytes(r['heap'])} MiB",
        }
        for r in means.join(first, on="variant").iter_rows(named=True)
    ]
    variants = Variants([g.variant for g in growths])
    line = draw(
        rows,
        "line",
        strokeWidth=1.8,
        point=True,
        x=make_axis("cycle", f"end of {cycles.name}", tickMinStep=1),
        y=make_axis("mib", f"heap, MiB more than after {cycles.name} {cycles.settled}"),
        tooltip=make_tips({"variant": "", "cycle:Q": cycles.name, "words": "heap"}),
        **variants.encode_lines({}),
    )
    return Figure(
        "replay-growth",
        f"Heap at the end of each {cycles.name}",
        f"Mean over replays, less what each malloc held after {cycles.name} {cycles.settled}.",
        make_chart(_HEIGHT, [line]),
    )


_TOUCHES = {
    "recorded": "those pages of a block are touched that the recorded program touched",
    "all": "every page of every block is touched, which takes more memory than the recorded "
    "program did",
    "first": "only the first page of a block is touched",
    "none": "no page of a block is touched, so that the heap holds little but what malloc itself "
    "writes",
}


@dataclass(frozen=True, kw_only=True)
class JudgedReplays:
    """A campaign of replays with all figures that its report has. ``averages``: of
    :func:`dballoc.questions.replay.figures.average_replays`; ``growth``: None where the trace
    repeats no cycle, or says nothing of memory.
    """

    campaign: Campaign
    facts: ReplayFacts
    averages: pl.DataFrame
    recommendation: Recommendation
    fidelity: Fidelity | None
    growth: CycleGrowth | None


def compose_replay_answer(judged: JudgedReplays) -> Answer:
    """Say what the replays show, and no more than that."""
    headline, progress = _compose_headline(judged), measure_progress(judged.campaign)
    growth = [describe_growth(judged.growth)] if judged.growth else []
    return Answer(
        headline=headline if progress.final else f"So far: {headline}",
        reason=_explain(judged, progress),
        table=_make_table(judged.recommendation),
        notes=[*growth, *_list_notes(judged.facts, progress, judged.fidelity)],
    )


def _compose_headline(judged: JudgedReplays) -> str:
    """Return the first sentence: the malloc with the least peak heap, and how far the replay was
    from the recorded process.
    """
    facts, comparisons = judged.facts, judged.recommendation.comparisons
    faultless = judged.averages.filter(~pl.col("variant").is_in(list(comparisons.faulty)))
    flaws = f" ({'; '.join(facts.flaws)})" if facts.flaws else ""
    if not faultless.height:
        return f"No malloc was replayed to its end without a fault{flaws}"
    if not facts.from_start:
        fast = faultless.sort("cpu").row(0, named=True)
        return (
            f"No answer on memory{flaws}; {fast['variant']} takes the least CPU per event, "
            f"{number(fast['cpu'])} ns"
        )
    least = faultless.sort("peak").row(0, named=True)
    return (
        f"{least['variant']} has the least peak heap{_describe_window(facts)}, "
        f"{with_unit(least['peak'])}"
        f"{_compare_least(least['variant'], comparisons, judged.recommendation.baseline)}"
        f"{_describe_distance(judged.fidelity)}{flaws}"
    )


def _describe_window(facts: ReplayFacts) -> str:
    """Return which stretch the peak belongs to, if it is not the whole trace."""
    if facts.window is None:
        return ""
    begin, end = facts.window
    return f" from {number(begin)} s to {number(end)} s of the trace"


def _compare_least(name: str, comparisons: Comparisons, baseline: str) -> str:
    """Return how the least is to the baseline, and whether that is shown."""
    judged = [*comparisons.family, *comparisons.descriptive]
    of_memory = (c for c in judged if c.variant == name and c.metric.measure.name == PEAK.name)
    comparison = next(of_memory, None)
    if name == baseline or comparison is None or comparison.ratio is None:
        return ", of all that were replayed" if len(comparisons.family) else ""
    verdict = describe_verdict(comparison, comparisons).partition(" (")[0]
    ratio = comparison.ratio
    return f", {format_ratio(ratio.estimate)} of {baseline}'s ({verdict})"


def _describe_distance(fidelity: Fidelity | None) -> str:
    """Return how far the replay was from the recorded process."""
    if fidelity is None:
        return "; how far that is from the recorded process is not known"
    direction = "above" if fidelity.error >= 0 else "below"
    # Without a real peak of the same stretch, that at rest is all that can be compared.
    peak, real = (
        ("the peak", "the real one")
        if fidelity.peak_is_estimated
        else ("the highest heap at any mark", "the real one at its marks")
    )
    return (
        f"; replayed on {fidelity.variant}, on which it was recorded, {peak} is "
        f"{percent(abs(fidelity.error))} {direction} {real}"
    )


def _explain(judged: JudgedReplays, progress: Progress) -> str:
    """Return what the rule says of memory and speed together."""
    if not judged.facts.from_start:
        return "CPU per event is judged below; the rule takes memory too, and names no malloc."
    recommendation = judged.recommendation
    rule = compose_headline(recommendation, progress).removeprefix("So far: ")
    why = explain_ending(recommendation, progress)
    return f"By the rule, memory and speed together: {rule}. {why}"


def _make_table(recommendation: Recommendation) -> Table | None:
    table = make_answer_table(recommendation)
    if table is None:
        return None
    return replace(
        table,
        caption=(
            f"{explain_cells(recommendation)} Peak heap: the most resident memory of malloc's that "
            "was seen in a replay, without the replay engine's own. An event is one call of "
            "malloc, free or their kin."
        ),
    )


def _list_notes(facts: ReplayFacts, progress: Progress, fidelity: Fidelity | None) -> list[str]:
    """Return what to know before one relies on the answer."""
    notes = []
    if not facts.from_start:
        notes.append(
            "The recording began late: what was allocated before it is unknown, so memory gets no "
            "verdict."
        )
    if facts.dropped:
        notes.append(
            f"{facts.dropped:,} events could not be recorded; every figure here is of a trace "
            "without them."
        )
    if fidelity is None:
        notes.append(
            "The recorded process's own memory was not measured, or no variant is its malloc, "
            f"{facts.malloc}, on this machine's C library; bench --record measures it."
        )
    if facts.window:
        notes.append(
            f"Peak heap is the highest{_describe_window(facts)}; everything else is of all of it."
        )
    notes += [describe_pace(facts), f"Of memory, {_TOUCHES[facts.touch]}."]
    if facts.not_seen:
        notes.append(f"Not in the trace: {listing(list(facts.not_seen))}.")
    if not progress.complete:
        why = {
            "decided": "Every comparison was decided",
            "budget": "The budget was used up",
            "interrupted": "The campaign was interrupted",
        }.get(progress.ending or "", "The campaign is not finished")
        notes.append(f"{why}: {progress.words} that were planned.")
    if progress.disturbed:
        blocks = f"{progress.disturbed} of {count(sum(progress.blocks.values()), 'block')}"
        notes.append(f"Disturbed by other work on the machine, but counted all the same: {blocks}.")
    notes.append(
        "A replay shows what a malloc does with this program's requests. It does not show what the "
        "program itself gains when its memory is laid out better, nor its waiting for locks."
    )
    return notes


def describe_pace(facts: ReplayFacts) -> str:
    """Return how fast the trace was replayed, and what that says of idle heap."""
    decaying = listing(list(facts.decaying))
    whose = "their" if len(facts.decaying) > 1 else "its"
    unjudged = (
        f" {decaying} may give memory back by the clock, so {whose} idle heap is not shown, and "
        f"{whose} peak may be another at the recorded pace."
        if decaying
        else ""
    )
    if facts.mode == "fast":
        return f"Replayed as fast as the recorded order allows.{unjudged}"
    if facts.keeps_the_clock:
        return "Replayed at the recorded pace."
    return f"Replayed {facts.speed:g} times as fast as recorded.{unjudged}"
