"""Declare the procedure: at which level intervals are printed and differences decided. Pure.


Looks are planned before the start, the comparisons that are judged are declared, and both share
the error of 5 %. Of the looks each has spent the share (blocks ÷ planned blocks)² when it is over
(Kim and DeMets, Design and analysis of group sequential tests based on the type I error spending
rate function, Biometrika 74, 1987): the first ones decide only what is plain, and the last has most
of the error left. What the looks spend adds up to the error, so that it holds under any dependence
between comparisons and looks.

That a variant is no worse is shown by one-sided bounds, at a level of their own. "Use X" claims all
its parts at once, so it is wrong only if the bound of the part that does not hold is wrong: each
part may be tested at the full error (the intersection-union test of Berger, Multiparameter
hypothesis testing and acceptance sampling, Technometrics 24, 1982), and only the variants and the
looks share it.

Two questions have half of the error each, memory and speed (:func:`declare_shares`). The planned
end has spent 0.8 of a share; the rest is for extensions, which are judged at fixed multiples of the
planned blocks alone. Between two looks, the verdicts and intervals of the last one stand. Where a
campaign's budget ends a design before its planned end, that is a look too, by the same spending
function (Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70, 1983):
when time is up does not depend on the figures. A later look spends what is left up to its own
share.

A campaign that was measured only, which nobody could judge while it ran, has one look: its planned
end, or where the budget ended it. That spends what others have spent by their planned end, and
nothing goes on from there. Were it all of the error, simulated campaigns with wild variants would
err in 5.9 %, for what these borrow (:mod:`dballoc.questions.statistics.ratio_interval`). Imported
results borrow nothing: their one look spends all.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dballoc.questions.compare import measures

ERROR = 0.05
# In so many campaigns a variant may be called no worse in all that is judged although it is worse
# than the margin in something.
NO_WORSE_ERROR = 0.025
LOOKS = (6, 10, 20, 40)
FIRST_LOOK, LAST_LOOK = LOOKS[0], LOOKS[-1]
# A look has spent (blocks ÷ planned blocks) to this power of the error.
SPENDING = 2
# A look after more than this share of the planned blocks would take error from the last one and
# save little time.
_LATEST = 2 / 3

# Two variants whose ratio is within this of 1 are equivalent.
MARGIN = 0.01

# The share of its error that a comparison has spent at the planned end.
END_SHARE = 0.8
# Extensions are judged at these multiples of the planned blocks. The first spends half of the rest
# of the error, each later one half of what the one before spent.
EXTENSIONS = (1.5, 2.0, 3.0, 4.0)

# What is judged: peak RSS, throughput, and the duet's CPU per transaction. Each question has half
# of the error; speed's two measures share theirs where both are judged.
MEMORY, THROUGHPUT, CPU = measures.PEAK.name, measures.THROUGHPUT.name, measures.CPU.name
CPU_ERROR, THROUGHPUT_ERROR = measures.CPU.error, measures.THROUGHPUT.error
MEMORY_ERROR, SPEED_ERROR = measures.PEAK.error, CPU_ERROR + THROUGHPUT_ERROR


@dataclass(frozen=True, kw_only=True)
class ErrorShare:
    """The ``error`` that all ``comparisons`` of a measure have together, over all looks.
    ``variants``: how many beside the baseline share the error of the bounds.
    """

    error: float
    comparisons: int
    variants: int

    @property
    def of_each(self) -> float:
        """The error of one comparison, over all looks."""
        return self.error / self.comparisons

    @property
    def of_bound(self) -> float:
        """The error of one comparison's bound, over all looks. It is one-sided."""
        return NO_WORSE_ERROR / self.variants


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """The declared procedure of one design. ``looks``: the numbers of blocks at which it may be
    judged, the planned number last; ``blocks``: those finished; ``shares``: of the whole campaign,
    in both its designs, by measure; ``budget_looks``: the numbers of blocks at which the budget
    ended the design; ``judged_once``: where the design ends, and never again; ``end_share``: the
    share of its error that a comparison has spent at the planned end.
    """

    looks: tuple[int, ...]
    blocks: int
    shares: Mapping[str, ErrorShare]
    budget_looks: tuple[int, ...] = ()
    judged_once: bool = False
    end_share: float = END_SHARE

    @property
    def family(self) -> int:
        """The number of comparisons of the whole campaign, in both its designs."""
        return sum(share.comparisons for share in self.shares.values())

    @property
    def extensions(self) -> tuple[int, ...]:
        """The numbers of blocks at which an extension may be judged."""
        return tuple(look for look in self.spending if look > self.looks[-1])

    @property
    def is_over_budget(self) -> bool:
        """Whether the budget ended the design, which has not come to its planned end since."""
        return self.blocks < self.looks[-1] and any(n <= self.blocks for n in self.budget_looks)

    @property
    def spending(self) -> dict[int, float]:
        """The share of its error that a comparison spends at each look."""
        looks = sorted({*self.looks, *(n for n in self.budget_looks if n < self.looks[-1])})
        if self.judged_once:
            return {looks[0]: self.end_share}
        spent = [0.0, *(self.end_share * (look / self.looks[-1]) ** SPENDING for look in looks)]
        shares = {look: spent[i + 1] - spent[i] for i, look in enumerate(looks)}
        for number, factor in enumerate(EXTENSIONS, 1):
            look = math.ceil(factor * self.looks[-1])
            # Of one planned block, the first extension falls on the second.
            shares.setdefault(look, (1 - self.end_share) * 2**-number)
        return shares

    @property
    def reached(self) -> int | None:
        """The number of blocks whose figures are judged: that of the last look that was reached,
        None before the first.
        """
        return max((look for look in self.spending if look <= self.blocks), default=None)

    @property
    def goal(self) -> int:
        """The number of blocks to which the campaign runs: those planned, or those of the extension
        that it is in.
        """
        return next(
            (look for look in (self.looks[-1], *self.extensions) if look >= self.blocks),
            self.blocks,
        )

    @property
    def current_look(self) -> int:
        """The look whose level intervals have: the last one reached, or the first before any is."""
        return self.reached or min(self.spending)

    @property
    def confidence(self) -> float:
        """The highest of the measures' levels."""
        return max(self.levels.values())

    @property
    def levels(self) -> dict[str, float]:
        """The level of each measure's intervals after ``blocks`` blocks."""
        share = self.spending[self.current_look]
        return {measure: 1 - s.of_each * share for measure, s in self.shares.items()}

    @property
    def bound_levels(self) -> dict[str, float]:
        """The level of the one-sided bounds of each measure after ``blocks`` blocks."""
        share = self.spending[self.current_look]
        return {measure: 1 - s.of_bound * share for measure, s in self.shares.items()}

    def after(self, blocks: int) -> "Procedure":
        """Return the procedure as it is after that many blocks."""
        return replace(self, blocks=blocks)


def list_extension_goals(procedures: Mapping[str, Procedure]) -> list[dict[str, int]]:
    """Return the numbers of blocks, by design, to which a campaign may still be extended, the
    nearest first: the planned end, if it was not reached, and the looks of extensions.
    ``procedures``: of the designs that are not decided, after their finished blocks.
    """
    number_of_looks = max((1 + len(p.extensions) for p in procedures.values()), default=0)
    goals = [
        {d: [p.looks[-1], *p.extensions][: number + 1][-1] for d, p in procedures.items()}
        for number in range(number_of_looks)
    ]
    return [
        goal
        for goal in goals
        if any(blocks > procedures[design].blocks for design, blocks in goal.items())
    ]


def declare_shares(
    judged: Collection[str], variants: int, workloads: int, left_out: int = 0
) -> dict[str, ErrorShare]:
    """Return what each of the ``judged`` measures may err. ``variants`` counts the baseline;
    ``left_out`` of them are not in the duet, and spend none of its error.

    Memory, the peak of each variant, has 2.5 %. Speed has 2.5 %: 2 % for CPU per transaction and
    0.5 % for throughput, or all for the one that there is. A campaign that measures no memory
    leaves its half unspent. A baseline alone is judged as if it had one variant.
    """
    others = max(1, variants - 1)
    in_duet = others - left_out
    each = {MEMORY: others, THROUGHPUT: others * workloads, CPU: in_duet * workloads}
    counts = {measure: each[measure] for measure in judged if each[measure]}
    errors = dict.fromkeys(counts, SPEED_ERROR) | {MEMORY: MEMORY_ERROR}
    if {CPU, THROUGHPUT} <= counts.keys():
        errors |= {CPU: CPU_ERROR, THROUGHPUT: THROUGHPUT_ERROR}
    return {
        m: ErrorShare(error=errors[m], comparisons=number, variants=others)
        for m, number in counts.items()
    }


def declare_imported_shares(variants: int, measures: Sequence[str]) -> dict[str, ErrorShare]:
    """Return what each measure of imported results may err: all comparisons share the error evenly.
    ``measures``: one a workload; ``variants`` counts the baseline.
    """
    others = max(1, variants - 1)
    return {
        m: ErrorShare(
            error=ERROR * number / len(measures),
            comparisons=others * number,
            variants=others,
        )
        for m, number in Counter(measures).items()
    }


def declare_procedure(
    planned_blocks: int,
    shares: Mapping[str, ErrorShare],
    budget_looks: Collection[int] = (),
    *,
    judged_once: bool = False,
    end_share: float = END_SHARE,
) -> Procedure:
    """Declare the procedure of a design with that many planned blocks; as it is at the
    planned end. ``shares``: of the whole campaign, from :func:`declare_shares`; ``budget_looks``:
    the numbers of blocks at which the budget ended the design; ``judged_once``: where it ends, and
    at no look before.
    """
    before = [] if judged_once else [look for look in LOOKS if look <= _LATEST * planned_blocks]
    return Procedure(
        looks=(*before, planned_blocks),
        blocks=planned_blocks,
        shares=shares,
        budget_looks=tuple(budget_looks),
        judged_once=judged_once,
        end_share=end_share,
    )
