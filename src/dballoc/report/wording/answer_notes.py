"""The notes under an answer. Pure."""

from dballoc.analysis.decisions.verdict import Verdict
from dballoc.analysis.tables.baseline_comparison import Comparisons
from dballoc.numbers import count, listing, percent
from dballoc.report.wording.answer import MANY, Progress
from dballoc.report.wording.ending import name_figure

DESIGNS = {
    "solo": "Solo: one server at a time has the machine; it gives throughput, response time and "
    "memory.",
    "duet": "Duet: baseline and variant at once, each on half of the CPUs, swapped; it gives the "
    "CPU per transaction.",
}


def compose_notes(comparisons: Comparisons, baseline: str, progress: Progress) -> list[str]:
    """Return what to know of the figures: drift, what is unfinished, disturbed, or judged how."""
    notes = []
    shown = [
        c
        for c in comparisons.floor
        if c.ratio and c.ratio.blocks > 1 and c.verdict in (Verdict.HIGHER, Verdict.LOWER)
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
    return notes + _describe_levels(comparisons)


def _describe_progress(comparisons: Comparisons, progress: Progress) -> list[str]:
    """Return how far a campaign is that has not all its planned blocks."""
    notes = []
    if not progress.final:
        why = "was interrupted" if progress.ending == "interrupted" else "is not finished"
        note = f"The campaign {why}: {progress.words}."
        for design, procedure in comparisons.procedures.items():
            if progress.blocks[design] not in procedure.looks:
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
    return notes


def _describe_levels(comparisons: Comparisons) -> list[str]:
    """Return what each design gives, and at which level its intervals are."""
    notes = []
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
