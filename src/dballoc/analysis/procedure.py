"""The one declared procedure: at which level intervals are printed and differences decided. Pure.

Looks are planned before the start, the family of comparisons is declared, and both share the error of 5 % by
Bonferroni, which holds under any dependence between the comparisons.
"""

from collections.abc import Collection
from dataclasses import dataclass

ERROR = 0.05
LOOKS = (6, 10, 20, 40)
FIRST_LOOK, LAST_LOOK = LOOKS[0], LOOKS[-1]

# Two variants within this of each other are as good as equal.
MARGIN = 0.01


@dataclass(frozen=True)
class Procedure:
    """Of one design. ``looks``: numbers of blocks at which it may be judged; ``family``: comparisons of the whole campaign,
    of both its designs.
    """

    looks: tuple[int, ...]
    family: int

    @property
    def confidence(self) -> float:
        """The level of every printed interval and every verdict."""
        return 1 - ERROR / (len(self.looks) * self.family)


def family_size(designs: Collection[str], variants: int, workloads: int) -> int:
    """Comparisons of a campaign: every variant but the baseline (``variants`` counts it) × its primary metrics: solo
    throughput of every workload, peak and idle RSS; duet CPU per transaction of every workload.
    """
    metrics = {"solo": workloads + 2, "duet": workloads}
    return max(1, variants - 1) * sum(metrics[design] for design in designs)


def declare(planned_blocks: int, family: int) -> Procedure:
    """For a design of that many planned blocks, of a campaign with that many comparisons in all."""
    looks = tuple(look for look in LOOKS if look < planned_blocks)
    return Procedure((*looks, planned_blocks), family)
