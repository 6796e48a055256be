"""What a recording says in words and numbers beside its calls, within what a trace's file holds:
the recorded process wrote it, and may have written anything. Pure.
"""

from collections.abc import Mapping
from dataclasses import replace

from dballoc.trace.model import NONE, Mark, Recording, ThreadCalls

_LONGEST = 4096
_MOST_MARKS, _MOST_FIGURES, _MOST_NOTES = 100_000, 1000, 1000
_LARGEST = 2**62 - 1


def make_tellable(recording: Recording) -> Recording:
    """Return the recording with its texts cut to what a file holds, marks at real times, and
    threads that only threads of the recording created, none of them its own offspring.
    """
    facts = recording.facts
    return replace(
        recording,
        facts=replace(
            facts,
            dropped=min(facts.dropped, _LARGEST),
            ended_by=facts.ended_by[:_LONGEST],
            program=facts.program[:_LONGEST],
            allocator=facts.allocator[:_LONGEST],
            seconds=float(min(max(facts.seconds, 0.0), 1e10)),
            not_seen=tuple(note[:_LONGEST] for note in facts.not_seen[:_MOST_NOTES]),
            allocator_version=facts.allocator_version[:_LONGEST],
            settings=facts.settings
            and tuple(setting[:_LONGEST] for setting in facts.settings[:_MOST_NOTES]),
        ),
        threads=_check_creators(recording.threads),
        marks=tuple(
            Mark(
                time=int(min(max(mark.time, 0), _LARGEST)),
                name=mark.name[:_LONGEST],
                truth=_check_figures(mark.truth),
            )
            for mark in recording.marks[:_MOST_MARKS]
        ),
    )


def _check_figures(truth: Mapping[str, int]) -> dict[str, int]:
    figures = list(truth.items())[:_MOST_FIGURES]
    return {name[:_LONGEST]: min(max(value, -_LARGEST), _LARGEST) for name, value in figures}


def _check_creators(threads: tuple[ThreadCalls, ...]) -> tuple[ThreadCalls, ...]:
    creators: dict[int, int] = {}
    # A thread that has no calls is not in the recording; what it created has no known creator.
    numbers = {thread.number for thread in threads}
    for thread in threads:
        creator = thread.created_by if thread.created_by in numbers else NONE
        creators[thread.number] = creator
    states: dict[int, bool] = {NONE: True}  # whether all that created it is known to be right
    for number in creators:
        path = []
        while number not in states:
            states[number] = False
            path.append(number)
            number = creators[number]
        if not states[number]:
            creators[path[-1]] = NONE
        states.update(dict.fromkeys(path, True))
    return tuple(
        replace(thread, name=thread.name[:_LONGEST], created_by=creators[thread.number])
        for thread in threads
    )
