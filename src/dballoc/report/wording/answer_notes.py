"""The notes under an answer. Pure."""

from dballoc.analysis.decisions.sequential_test import Procedure
from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.measures import JUDGED
from dballoc.analysis.tables.baseline_comparison import Comparisons
from dballoc.experiment.designs import Design
from dballoc.numbers import count, listing, percent
from dballoc.report.wording.answer import MANY, Progress
from dballoc.report.wording.ending import name_figure
from dballoc.report.wording.noise_and_network import warn_of_encryption


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
    """Return what each design gives, and at which level its intervals are."""
    notes = []
    for design, procedure in comparisons.procedures.items():
        judged = (
            f"{count(procedure.family, 'comparison')} at {count(len(procedure.spending), 'look')}"
        )
        several = procedure.family * len(procedure.spending) > 1
        together = (
            f", so that all {judged} together err in 5 % of campaigns at most" if several else ""
        )
        notes.append(
            f"{Design(design).traits.gives} Intervals at {describe_levels(procedure, design)}"
            f"{together}."
        )
    return notes


def describe_levels(procedure: Procedure, design: str) -> str:
    """Return the level of a design's intervals, or that of each of its measures."""
    levels = procedure.levels
    return listing(
        [
            f"{percent(levels[measure.name], 2)} ({measure.short})"
            for measure in JUDGED
            if measure.design == design and measure.name in levels
        ]
    )


def _describe_looks(comparisons: Comparisons) -> list[str]:
    """Return after which number of blocks the designs were judged that have more, or none."""
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
