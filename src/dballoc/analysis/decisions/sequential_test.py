"""Declare the one procedure: at which level intervals are printed and differences decided. Pure.

Looks are planned before the start, the family of comparisons is declared, and both share the error
of 5 %. The family shares it evenly (Bonferroni). Of the looks each has spent the share (blocks ÷
planned blocks)² of it when it is over (Kim and DeMets, Design and analysis of group sequential
tests based on the type I error spending rate function, Biometrika 74, 1987): the first ones decide
only what is plain, and the last has most of the error left. What the looks spend adds up to the
error, so that it holds under any dependence between comparisons and looks.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

ERROR = 0.05
LOOKS = (6, 10, 20, 40)
FIRST_LOOK, LAST_LOOK = LOOKS[0], LOOKS[-1]
# A look has spent (blocks ÷ planned blocks) to this power of the error.
SPENDING = 2
# A look after more than this share of the planned blocks would take error from the last one and
# save little time.
_LATEST = 2 / 3

# Two variants whose ratio is within this of 1 are equivalent.
MARGIN = 0.01


@dataclass(frozen=True)
class Procedure:
    """The declared procedure of one design. ``looks``: the numbers of blocks at which it may be
    judged, the planned number last; ``family``: the comparisons of the whole campaign, in both its
    designs; ``blocks``: those finished.
    """

    looks: tuple[int, ...]
    family: int
    blocks: int

    @property
    def confidence(self) -> float:
        """The level of every printed interval and every verdict after ``blocks`` blocks: that of
        the look at that number or, between two looks, of the next one.
        """
        spent = [0.0, *((look / self.looks[-1]) ** SPENDING for look in self.looks)]
        at = next(
            (i for i, look in enumerate(self.looks) if self.blocks <= look), len(self.looks) - 1
        )
        return 1 - ERROR * (spent[at + 1] - spent[at]) / self.family

    def after(self, blocks: int) -> "Procedure":
        """Return the procedure as it is after that many blocks."""
        return replace(self, blocks=blocks)


def count_comparisons(designs: Collection[str], variants: int, workloads: int) -> int:
    """Return the number of comparisons of a campaign: every variant but the baseline (``variants``
    counts it) × its primary metrics. These are solo throughput of every workload, peak and idle
    RSS; duet CPU per transaction of every workload.
    """
    metrics = {"solo": workloads + 2, "duet": workloads}
    return max(1, variants - 1) * sum(metrics[design] for design in designs)


def declare_procedure(planned_blocks: int, family: int) -> Procedure:
    """Declare the procedure of a design with that many planned blocks, in a campaign with
    ``family`` comparisons in all; as it is when all blocks are finished.
    """
    looks = tuple(look for look in LOOKS if look <= _LATEST * planned_blocks)
    return Procedure((*looks, planned_blocks), family, planned_blocks)
