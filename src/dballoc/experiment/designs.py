"""The designs: how the trials of a block load servers. Pure."""

from enum import StrEnum
from typing import Literal

# What an experiment and --design may ask for.
DesignChoice = Literal["solo", "duet", "both"]


class Design(StrEnum):
    """A design, by its word in files, facts, tables and flags. ``SOLO``: one server at a time has
    the machine. ``DUET``: the baseline and a variant run at once, each on half of the CPUs.
    """

    SOLO = "solo"
    DUET = "duet"

    @property
    def is_paired(self) -> bool:
        """Whether each trial loads the baseline beside a variant, and compares the two by itself.
        Otherwise a trial is of one server at one or several levels, and blocks compare them.
        """
        return self is Design.DUET

    def count_trials(self, variants: int) -> int:
        """Return how many trials a block of so many variants has, the baseline among them: a solo
        block starts the baseline twice; a paired one has a pairing for each variant.
        """
        return variants if self.is_paired else variants + 1


def select_designs(choice: DesignChoice | None) -> tuple[Design, ...]:
    """Return the designs that a choice stands for; None: both."""
    return tuple(Design) if choice in (None, "both") else (Design(choice),)
