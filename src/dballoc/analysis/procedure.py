"""The one declared procedure: at which level intervals are printed and differences decided. Pure.

Looks are planned before the start, the family of comparisons is declared, and both share the error of 5 % by
Bonferroni, which holds under any dependence between the comparisons.
"""

from dataclasses import dataclass

ERROR = 0.05
LOOKS = (6, 10, 20, 40)

# Two variants within this of each other are as good as equal.
MARGIN = 0.01


@dataclass(frozen=True)
class Procedure:
    """``looks``: numbers of blocks at which the campaign may be judged; ``family``: comparisons judged together."""

    looks: tuple[int, ...]
    family: int

    @property
    def confidence(self) -> float:
        """The level of every printed interval and every verdict."""
        return 1 - ERROR / (len(self.looks) * self.family)


def declare(planned_blocks: int, variants: int, workloads: int) -> Procedure:
    """For a campaign of that many planned blocks. ``variants`` counts the baseline.

    The family: every variant but the baseline × (throughput of every workload, peak RSS, idle RSS).
    """
    looks = tuple(look for look in LOOKS if look < planned_blocks)
    return Procedure((*looks, planned_blocks), max(1, variants - 1) * (workloads + 2))
