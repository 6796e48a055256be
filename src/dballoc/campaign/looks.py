"""The seam at which a campaign is judged while it runs. Empty, a campaign measures every planned
block, and needs no data frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dballoc.ground.numbers import listing
from dballoc.questions.compare.procedure import Procedure, declare_procedure
from dballoc.store.results import Results


class Looks(Protocol):
    """Judges a campaign from its results directory."""

    def declare_procedures(self, directory: Path, /) -> Mapping[str, Procedure]:
        """Return each design's procedure after the blocks that are finished."""

    def is_decided_at(self, directory: Path, design: str, blocks: int, /) -> bool:
        """Whether this number of blocks is a look at which more blocks of the design could only
        repeat the verdicts.
        """


class NoLooks:
    """The empty seam: a campaign is judged once, where it ends, and by others."""

    def declare_procedures(self, directory: Path) -> Mapping[str, Procedure]:
        """Return each design's procedure after the blocks that are finished, without the
        comparisons that share its error.
        """
        results = Results.open(directory, read_only=True)
        try:
            facts = results.facts()
            return {
                design: declare_procedure(
                    planned, {}, facts.budget_looks.get(design, ()), judged_once=True
                ).after(len({row.block for row in results.blocks(design)}))
                for design, planned in facts.planned_blocks.items()
            }
        finally:
            results.close()

    def is_decided_at(self, _: Path, __: str, ___: int) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, kw_only=True)
class Extension:
    """What an extension runs. ``goals``: the number of blocks of each design that goes on, in all;
    ``missing``: those of them that are still to be run; ``seconds``: the time that these are
    expected to take.
    """

    goals: dict[str, int]
    missing: dict[str, int]
    seconds: float

    @property
    def words(self) -> str:
        """Return ``the look at 9 solo blocks and 15 duet blocks``."""
        blocks = [f"{number} {design} blocks" for design, number in self.goals.items()]
        return f"the look at {listing(blocks)}"
