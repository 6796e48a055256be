"""One answer of those on several numbers of CPUs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dballoc.document.model import Answer, Table
from dballoc.ground.numbers import count


@dataclass(frozen=True, kw_only=True)
class CpuAnswer:
    """The ``answer`` on a number of ``cpus``. ``minutes``: what its command takes; None where it is
    not known, or there is none.
    """

    cpus: int
    answer: Answer
    minutes: int | None = None


# The sentence before a command ends so.
_BEFORE_COMMAND = ":"


def combine_answers(answers: Sequence[CpuAnswer]) -> Answer:
    """Return the answers as one, which says for each number of CPUs what to use and why. All
    numbers share the blocks, so of several commands the longest one does what the others do.
    """
    open_answers = [each for each in answers if each.answer.command]
    longest = max(open_answers, key=lambda each: each.minutes or 0, default=None)
    reasons = [_place(each.cpus, _end(each.answer.reason)) for each in answers]
    if longest:
        several = len({each.answer.command for each in open_answers}) > 1
        reasons.append("The longest of these does it for all:" if several else "That is:")
    first, *others = (_place(each.cpus, each.answer.headline) for each in answers)
    return Answer(
        headline="; ".join([first, *(words[0].lower() + words[1:] for words in others)]),
        reason=" ".join(reasons),
        command=longest.answer.command if longest else "",
        table=_join_tables([each.answer.table for each in answers if each.answer.table]),
        notes=list(dict.fromkeys(note for each in answers for note in each.answer.notes)),
    )


def _place(cpus: int, words: str) -> str:
    return f"On {count(cpus, 'CPU')}: {words}"


def _end(text: str) -> str:
    """Return a text that ends as a sentence does."""
    text = text.removesuffix(_BEFORE_COMMAND)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _join_tables(tables: Sequence[Table]) -> Table | None:
    """Return the rows of all tables below each other: they have the same columns, for a campaign
    has the same designs on every number of CPUs.
    """
    if not tables:
        return None
    faint: list[int] = []
    rows: list[list[str]] = []
    for table in tables:
        faint += [len(rows) + index for index in table.faint]
        rows += table.rows
    return replace(tables[0], rows=rows, faint=faint)
