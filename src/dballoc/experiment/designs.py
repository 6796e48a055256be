"""The designs: how the trials of a block load servers. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

# The values of --design.
DesignChoice = Literal["solo", "duet", "turns", "both"]


@dataclass(frozen=True, kw_only=True)
class DesignTraits:
    """The properties of a design. ``is_paired``: whether each trial has the baseline's server
    beside others, and compares them by itself; otherwise a trial is of one server at one or several
    levels, and blocks compare them. ``floor_to_variant``: the variance of a variant's log ratio ÷
    that of the A/A floor's. ``gives``: what it is, and which figures it gives, a sentence;
    ``counted``: over what counters are compared, a clause.
    """

    is_paired: bool
    floor_to_variant: float
    gives: str
    counted: str


class Design(StrEnum):
    """A design, by its word in files, facts, tables and flags."""

    SOLO = "solo"
    DUET = "duet"
    TURNS = "turns"

    @property
    def traits(self) -> DesignTraits:
        """What follows from it."""
        return _TRAITS[self]

    @property
    def is_paired(self) -> bool:
        """Whether each trial compares a variant with the baseline by itself."""
        return self.traits.is_paired

    def count_trials(self, variants: int) -> int:
        """Return how many trials a block of so many variants has, the baseline among them: a solo
        block starts the baseline twice, and so do turns; a duet's has a pairing for each variant.
        """
        return variants if self is Design.DUET else variants + 1


_TRAITS = {
    # If every solo run's logarithm has the variance v, a variant less the mean of the baseline's
    # two runs has 3/2 v, and A2 less A1 has 2 v.
    Design.SOLO: DesignTraits(
        is_paired=False,
        floor_to_variant=1.5 / 2,
        gives="Solo: one server at a time has the machine; it gives throughput, response time and "
        "memory.",
        counted="Over the window in which the load was reported. Ratios: the blocks' d",
    ),
    # A variant and A2 have partners of their own.
    Design.DUET: DesignTraits(
        is_paired=True,
        floor_to_variant=1.0,
        gives="Duet: baseline and variant at once, each on half of the CPUs, swapped; it gives the "
        "CPU per transaction.",
        counted="At half width, both servers at the same time. Ratios: plain mean over pairs of "
        "slices",
    ),
    # As in solo blocks: both of the baseline's servers take part.
    Design.TURNS: DesignTraits(
        is_paired=True,
        floor_to_variant=1.5 / 2,
        gives="Turns: all servers are alive, and each has the whole machine for a part of a second "
        "at a time while the others are stopped; it gives throughput at the highest level.",
        counted="Over the turns of each server",
    ),
}


def select_designs(choice: DesignChoice | None) -> tuple[Design, ...]:
    """Return the designs that a choice stands for; None: all; both: solo and duet."""
    if choice is None:
        return tuple(Design)
    return (Design.SOLO, Design.DUET) if choice == "both" else (Design(choice),)


def name_choice(designs: Collection[str]) -> DesignChoice | None:
    """Return the narrowest choice that has all of these designs; None: all three."""
    choices = sorted(get_args(DesignChoice), key=lambda choice: len(select_designs(choice)))
    return next((c for c in choices if {*designs} <= {*select_designs(c)}), None)
