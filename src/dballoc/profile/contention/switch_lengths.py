"""Switches by their length, and what those with a call stack stand for. Pure.

This is post-stratification (Cochran, Sampling Techniques, 3rd edition 1977, section 5A.9): which
switches have a stack does not depend on how long they took, but what they wait for does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Lengths with fewer stacks share the factor of their neighbours.
LEAST_STACKS = 10


@dataclass
class Tally:
    """Some switches: how many, and the ``seconds`` from the switch until the thread ran again;
    ``queued``: of these in the queue for a CPU.
    """

    count: int = 0
    seconds: float = 0.0
    queued: float = 0.0

    def add(self, other: "Tally") -> None:
        """Add other switches."""
        self.count += other.count
        self.seconds += other.seconds
        self.queued += other.queued


@dataclass(frozen=True)
class Factor:
    """What one switch with a stack stands for: in number, and in time."""

    count: float
    seconds: float


def scale_by_length(
    with_stack: Mapping[int, Tally], ended: Mapping[int, Tally], switches: int
) -> dict[int, Factor]:
    """Return the factors by length: with them, the switches with a stack are as many as all
    ``switches``, and took as long as all that ``ended``. Empty if none has a stack.
    """
    factors: dict[int, Factor] = {}
    ended_count = sum(tally.count for tally in ended.values())
    for group in _group_lengths(with_stack, ended):
        stacks = _sum_tallies(with_stack[length] for length in group if length in with_stack)
        total = _sum_tallies(ended[length] for length in group)
        if stacks.count:
            count = total.count / stacks.count * switches / ended_count
            seconds = total.seconds / stacks.seconds if stacks.seconds else 0.0
            factors |= dict.fromkeys(group, Factor(count, seconds))
    return factors


def _group_lengths(with_stack: Mapping[int, Tally], ended: Mapping[int, Tally]) -> list[list[int]]:
    """Return neighbouring lengths in groups that have stacks enough, where that is possible."""
    groups: list[list[int]] = []
    stacks = LEAST_STACKS
    for length in sorted(ended):
        if stacks >= LEAST_STACKS:
            groups.append([])
            stacks = 0
        groups[-1].append(length)
        stacks += with_stack[length].count if length in with_stack else 0
    if stacks < LEAST_STACKS and len(groups) > 1:
        too_few = groups.pop()
        groups[-1] += too_few
    return groups


def _sum_tallies(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total
