"""The whole answer in words. Pure: from figures and decisions to sentences."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dballoc.document.model import Answer
from dballoc.experiment.designs import Design
from dballoc.ground.numbers import count, listing, percent
from dballoc.questions.campaign.answer.answer_table import TailLatency, make_answer_table
from dballoc.questions.campaign.answer.conditions_and_preference import LEAST_MEMORY, format_share
from dballoc.questions.campaign.answer.ending import (
    compose_headline,
    explain_ending,
    explain_settling,
    name_figure,
)
from dballoc.questions.campaign.answer.noise_network_encryption import warn_of_encryption
from dballoc.questions.campaign.answer.recommendation import Ending, Recommendation, list_questions
from dballoc.questions.campaign.answer.settling_time import SettlingTime, Way
from dballoc.questions.compare.answer_words import MANY, Progress
from dballoc.questions.compare.baseline_comparison import Comparisons
from dballoc.questions.compare.measures import JUDGED
from dballoc.questions.compare.procedure import ERROR, NO_WORSE_ERROR, Procedure
from dballoc.questions.compare.verdict import DEFAULT_MARGIN, Verdict


def compose_notes(comparisons: Comparisons, baseline: str, progress: Progress) -> list[str]:
    """Return what to know of the figures: drift, what is unfinished, disturbed, or judged how."""
    notes = []
    shown = [
        c
        for c in comparisons.floor
        if c.ratio and c.ratio.interval and c.verdict in (Verdict.HIGHER, Verdict.LOWER)
    ]
    if shown:
        drifting = listing([name_figure(c, comparisons) for c in shown[:MANY]])
        drifting += f" and {len(shown) - MANY} more" if len(shown) > MANY else ""
        notes.append(
            f"{baseline} differs from itself ({drifting}): something drifts; mistrust differences "
            "as small as that."
        )
    notes += _describe_progress(comparisons, progress)
    if progress.no_duet:
        notes.append(
            "No duet was played, so the CPU per transaction was not compared closely: "
            f"{progress.no_duet}."
        )
    if progress.disturbed:
        blocks = f"{progress.disturbed} of {count(sum(progress.blocks.values()), 'block')}"
        notes.append(f"Disturbed by other work on the machine, but counted all the same: {blocks}.")
    notes += warn_of_encryption(progress.connections)
    notes += _describe_hosts(progress)
    return [*notes, *_describe_looks(comparisons), *_describe_levels(comparisons)]


def _describe_hosts(progress: Progress) -> list[str]:
    """Return on how many hosts a campaign ran, and which variants lost hosts."""
    notes = []
    if progress.hosts:
        notes.append(
            f"Blocks ran on {count(progress.hosts, 'host')}, each whole on one. The verdicts are "
            "about these hosts; dballoc combine on this directory judges over hosts, and shows how "
            "they differ."
        )
    if progress.lost:
        lost = listing([f"{x.variant} ({x.losses})" for x in progress.lost])
        notes.append(
            f"Hosts were lost in trials of {lost}; these enter no figure, for their blocks were "
            "drawn again."
        )
    notes += [
        f"{x.variant} may take hosts down: with losses that strike at random, so many would be its "
        f"own in one of {round(1 / x.chance):,} campaigns."
        for x in progress.lost
        if x.is_suspect
    ]
    return notes


def _describe_progress(comparisons: Comparisons, progress: Progress) -> list[str]:
    """Return how far a campaign is that has not all its planned blocks."""
    notes = []
    if not progress.final:
        why = "was interrupted" if progress.ending == "interrupted" else "is not finished"
        notes.append(f"The campaign {why}: {progress.words}.")
    elif not progress.complete:
        notes += _describe_early_end(progress)
    return notes


def _describe_early_end(progress: Progress) -> list[str]:
    """Return why a campaign has ended without all its blocks."""
    if progress.ending == "decided":
        return [f"Every comparison was decided: {progress.words} that were planned."]
    short = [d for d, planned in progress.planned.items() if progress.blocks[d] < planned]
    decided = [d for d in short if d in progress.decided]
    notes = [
        f"Every comparison of the {design} design was decided: "
        f"{progress.describe_blocks([design])} that were planned."
        for design in decided
    ]
    if rest := [d for d in short if d not in decided]:
        blocks = progress.describe_blocks(rest)
        notes.append(
            f"An extension was not finished: {blocks}."
            if progress.is_extended
            else f"The budget was used up: {blocks} that were planned."
        )
    return notes


def _describe_levels(comparisons: Comparisons) -> list[str]:
    """Return what each design gives, and how often intervals and bounds are wrong."""
    procedures = comparisons.procedures
    if not procedures:
        return []
    notes = [Design(design).traits.gives for design in procedures]
    levels = listing([words for d in procedures for words in _list_levels(procedures, d)])
    family = max(procedure.family for procedure in procedures.values())
    together = f"all {family} together" if family > 1 else "the one comparison"
    over = "" if comparisons.judged_once else "over all looks "
    notes.append(
        f"Intervals at {levels}: {over}{together} may be wrong in {percent(ERROR, 0)} of campaigns "
        f"at most. {describe_bounds(procedures)}"
    )
    return notes


def describe_bounds(procedures: Mapping[str, Procedure]) -> str:
    """Return the levels of the bounds, and how often they are wrong."""
    by_design = {
        design: percent(max(p.bound_levels.values()), 2)
        for design, p in procedures.items()
        if p.bound_levels
    }
    levels = listing([f"{level} ({design})" for design, level in by_design.items()])
    if len(set(by_design.values())) == 1:
        levels = next(iter(by_design.values()))
    return (
        f"No worse: by one-sided bounds at {levels}; in {percent(NO_WORSE_ERROR)} of campaigns at "
        "most they pass a variant that is worse than the margin in something."
    )


def describe_levels(procedures: Mapping[str, Procedure], design: str) -> str:
    """Return the level of a design's intervals, or that of each of its measures."""
    return listing(_list_levels(procedures, design))


def _list_levels(procedures: Mapping[str, Procedure], design: str) -> list[str]:
    levels = procedures[design].levels
    return [
        f"{percent(levels[measure.name], 2)} ({measure.short})"
        for measure in JUDGED
        if measure.choose_design(procedures) == design and measure.name in levels
    ]


def _describe_looks(comparisons: Comparisons) -> list[str]:
    """Return after which number of blocks the designs were judged that have more, or none."""
    if comparisons.judged_once:
        blocks = [count(min(p.spending), f"{d} block") for d, p in comparisons.procedures.items()]
        return [f"Measured only: not judged while it ran, so judged once, after {listing(blocks)}."]
    notes = []
    for design, p in comparisons.procedures.items():
        if p.reached != p.blocks:
            judged = f"as of {p.reached} blocks" if p.reached else "not judged yet"
            coming = [str(look) for look in p.spending if look > p.blocks]
            then = f"; the next look is at {coming[0]}" if coming else ""
            notes.append(
                f"{design.capitalize()} verdicts and intervals are {judged}, of {p.blocks} "
                f"finished{then}: between two looks those of the last one stand."
            )
    return notes


# What stands for the results directory where its name is not to be shown.
_SOME_DIRECTORY = "DIR"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What an answer says beside the comparisons: p99 by variant, what would settle it, and the
    results directory for the command; None where its name is not to be shown; ``against``: what
    ratios are to, in words, where that is not one baseline.
    """

    tails: Sequence[TailLatency] = ()
    settling: SettlingTime | None = None
    directory: Path | None = None
    against: str = ""


def compose_answer(
    recommendation: Recommendation,
    progress: Progress,
    surroundings: Surroundings | None = None,
) -> Answer:
    """Say what the campaign shows, and no more than that."""
    comparisons = recommendation.comparisons
    around = surroundings or Surroundings()
    reason = explain_ending(recommendation, progress)
    command = ""
    memory = "memory" in list_questions(comparisons)
    preference = recommendation.preference
    needs_memory = not preference.constraints or preference.objective == "memory"
    # Of a campaign that goes on, a settled answer says no more.
    is_interim = not progress.final and not progress.is_extended
    is_open = (
        recommendation.ending is Ending.NOT_SETTLED
        or (around.settling is not None and not (is_interim and recommendation.contender))
        or (recommendation.ending is Ending.STAY and needs_memory and not memory)
    )
    if is_open and comparisons.family:
        more = explain_settling(recommendation, around.settling, progress)
        reason = f"{reason} {more}".strip()
        command = compose_command(around, progress, recommendation, memory=memory)
    evidence = recommendation.evidence
    exploratory = (
        f"Exploratory: the margin of {format_share(evidence.margin)} was not stored before the "
        "first block."
    )
    return Answer(
        headline=compose_headline(recommendation, progress),
        reason=reason,
        command=command,
        table=make_answer_table(recommendation, around.tails, around.against),
        notes=[
            f"Rule: {preference.describe_rule(evidence.margin)}.",
            *([exploratory] if evidence.exploratory else []),
            *compose_notes(comparisons, recommendation.baseline, progress),
        ],
    )


def compose_command(
    around: Surroundings, progress: Progress, recommendation: Recommendation, *, memory: bool
) -> str:
    """Return the command that would settle an open answer; none where nothing on this host would.
    ``memory``: whether memory was compared.
    """
    preference = recommendation.preference
    prefer = f" --prefer {shlex.quote(preference.text)}" if preference != LEAST_MEMORY else ""
    margin = recommendation.evidence.margin
    # A campaign that has begun has its margin already.
    anew = f" --margin {margin * 100:g}%" if margin != DEFAULT_MARGIN else ""
    how = " --ray HOST:PORT" if progress.hosts else ""
    if recommendation.comparisons.judged_once:
        how = " --measure-only"
    directory = _name_directory(around.directory)
    quoted = shlex.quote(directory)
    bench = f"dballoc bench {shlex.quote(f'{directory}/experiment.toml')}"
    another = shlex.quote(f"{directory}-2")
    settling = around.settling
    if not progress.final and not progress.is_extended:
        return f"{bench} --out {quoted}{prefer}{how}"
    if progress.final and not memory:
        return f"{bench} --design both --out {another}{prefer}{anew}{how}"
    if settling is None or settling.minutes is None:
        return ""
    if settling.way is Way.EXTEND:
        design = f" --design {settling.design}" if settling.design else ""
        return f"dballoc bench --out {quoted} --extend {settling.minutes}m{design}{prefer}"
    size = f"--blocks {settling.blocks} --budget {settling.minutes}m"
    return f"{bench} {size} --out {another}{prefer}{anew}{how}"


def quote_directory(directory: Path | None) -> str:
    """Return the directory as a word of a command that is pasted into a shell."""
    return shlex.quote(_name_directory(directory))


def _name_directory(directory: Path | None) -> str:
    """Return the directory's name; a stand-in where it is not to be shown, or is no UTF-8."""
    name = str(directory or _SOME_DIRECTORY)
    return name if name.isprintable() else _SOME_DIRECTORY
