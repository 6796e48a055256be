"""The whole answer in words. Pure: from figures and decisions to sentences."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dballoc.analysis.decisions.endings import Ending
from dballoc.analysis.decisions.noninferiority import DEFAULT_MARGIN
from dballoc.analysis.decisions.preference import LEAST_MEMORY, format_share
from dballoc.analysis.decisions.recommendation import Recommendation, list_questions
from dballoc.analysis.decisions.settling_time import Settling, Way
from dballoc.analysis.tables.baseline_comparison import Comparisons
from dballoc.document.model import Answer
from dballoc.report.wording.answer import Progress
from dballoc.report.wording.answer_notes import compose_notes
from dballoc.report.wording.answer_table import TailLatency, make_answer_table
from dballoc.report.wording.ending import compose_headline, explain_ending, explain_settling

# What stands for the results directory where its name is not to be shown.
_SOME_DIRECTORY = "DIR"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What an answer says beside the comparisons: p99 by variant, what would settle it, and the
    results directory for the command; None where its name is not to be shown.
    """

    tails: Sequence[TailLatency] = ()
    settling: Settling | None = None
    directory: Path | None = None


def compose_answer(
    comparisons: Comparisons,
    recommendation: Recommendation,
    baseline: str,
    progress: Progress,
    surroundings: Surroundings | None = None,
) -> Answer:
    """Say what the campaign shows, and no more than that."""
    around = surroundings or Surroundings()
    reason = explain_ending(comparisons, recommendation, baseline, progress)
    command = ""
    memory = "memory" in list_questions(comparisons)
    preference = recommendation.preference
    needs_memory = not preference.constraints or preference.objective == "memory"
    is_open = (
        recommendation.ending is Ending.NOT_SETTLED
        or around.settling is not None
        or (recommendation.ending is Ending.STAY and needs_memory and not memory)
    )
    if is_open and comparisons.family:
        more = explain_settling(comparisons, recommendation, around.settling, progress)
        reason = f"{reason} {more}".strip()
        command = compose_command(around, progress, recommendation, memory=memory)
    evidence = recommendation.evidence
    exploratory = (
        f"Exploratory: the margin of {format_share(evidence.margin)} was not stored before the "
        "first block."
    )
    return Answer(
        headline=compose_headline(comparisons, recommendation, baseline, progress),
        reason=reason,
        command=command,
        table=make_answer_table(comparisons, recommendation, around.tails),
        notes=[
            f"Rule: {preference.describe_rule(evidence.margin)}.",
            *([exploratory] if evidence.exploratory else []),
            *compose_notes(comparisons, baseline, progress),
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
    ray = " --ray HOST:PORT" if progress.hosts else ""
    directory = _name_directory(around.directory)
    quoted = shlex.quote(directory)
    bench = f"dballoc bench {shlex.quote(f'{directory}/experiment.toml')}"
    another = shlex.quote(f"{directory}-2")
    settling = around.settling
    if not progress.final and not progress.is_extended:
        return f"{bench} --out {quoted}{prefer}{ray}"
    if progress.final and not memory:
        return f"{bench} --design both --out {another}{prefer}{anew}{ray}"
    if settling is None or settling.minutes is None:
        return ""
    if settling.way is Way.EXTEND:
        return f"dballoc bench --out {quoted} --extend {settling.minutes}m{prefer}"
    size = f"--blocks {settling.blocks} --budget {settling.minutes}m"
    return f"{bench} {size} --out {another}{prefer}{anew}{ray}"


def quote_directory(directory: Path | None) -> str:
    """Return the directory as a word of a command that is pasted into a shell."""
    return shlex.quote(_name_directory(directory))


def _name_directory(directory: Path | None) -> str:
    """Return the directory's name; a stand-in where it is not to be shown, or is no UTF-8."""
    name = str(directory or _SOME_DIRECTORY)
    return name if name.isprintable() else _SOME_DIRECTORY
