"""Share a campaign's budget among its designs before the first block, without a look at any figure:
so that the answer "Use X" is as likely as can be, should X save :data:`SAVED` of memory and cost
nothing else. Pure but for the templates' size on disk.

A design that has little to show gets little: each is worth the probability that its intervals or
bounds clear what "Use X" asks of them, with the scatter that blocks usually have, and all have to.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from dballoc.campaign.preparation.prepare import PreparedCampaign
from dballoc.campaign.ways import usual_blocks
from dballoc.experiment.designs import Design
from dballoc.ground.distributions import find_t_quantile
from dballoc.questions.compare.duet_plan import LEAST_PAIRS
from dballoc.questions.compare.measures import list_judged
from dballoc.questions.compare.procedure import (
    CPU,
    FIRST_LOOK,
    LAST_LOOK,
    MARGIN,
    MEMORY,
    THROUGHPUT,
    declare_procedure,
    declare_shares,
)
from dballoc.questions.compare.verdict import DEFAULT_MARGIN
from dballoc.questions.statistics.ratio_interval import count_common_freedom

# The share of memory that a variant worth naming saves.
SAVED = 0.05
# The standard deviation of ln peak RSS, variant ÷ baseline, from block to block.
_MEMORY_SCATTER = 0.015
# The budget is shared in so many parts, and a design has one at least.
_PARTS = 20
_NUMBERS = (*range(FIRST_LOOK, 13), 14, 16, 20, 25, 30, LAST_LOOK)
# Seconds of a duet's slice, and of it that count.
_SLICE, _COUNTED = 0.4, 0.3


@dataclass(frozen=True, kw_only=True)
class DesignCosts:
    """What a design takes: ``once``, for each block, and for each second of load of its servers, in
    seconds; no less than ``least_load`` seconds a block. ``scatter``: of a block with so many
    seconds of load, as a standard deviation of ln ratio.
    """

    once: float = 0.0
    block: float
    load: float = 0.0
    least_load: float = 0.0
    scatter: Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class Hurdle:
    """What "Use X" asks of a measure: that an interval's end is no further from the estimate than
    ``distance`` (ln). ``level``: the end's one-sided level, by the number of planned blocks;
    ``borrowed``: degrees of freedom of the common variance; ``times``: in how many workloads.
    """

    distance: float
    level: Callable[[int], float]
    borrowed: int
    times: int

    def find_log_chance(self, scatter: float, blocks: int) -> float:
        """Return ln of the probability that blocks of such a scatter clear it."""
        error = scatter / math.sqrt(blocks)
        critical = find_t_quantile(blocks - 1 + self.borrowed, self.level(blocks))
        return self.times * _compute_log_normal(self.distance / error - critical)


def _compute_log_normal(z: float) -> float:
    """Return ln of the standard normal distribution at z."""
    if z > 0:
        return math.log1p(-math.erfc(z / math.sqrt(2)) / 2)
    if z > -30:
        return math.log(math.erfc(-z / math.sqrt(2)) / 2)
    return -(z**2) / 2 - math.log(-z * math.sqrt(2 * math.pi))


def compute_budget_share(setting: PreparedCampaign, design: Design) -> float | None:
    """Return the seconds of the budget that a design has; None without a budget."""
    budget, designs = setting.experiment.budget, setting.designs
    if budget is None or len(designs) == 1:
        return budget
    blocks = setting.experiment.blocks
    hurdles = _list_hurdles(setting)
    costs = {each: _find_costs(setting, each) for each in designs}
    worth = {
        (each, parts): _find_worth(costs[each], budget * parts / _PARTS, hurdles[each])
        for each in designs
        for parts in range(1, _PARTS)
    }
    best = max(
        _list_partitions(len(designs)),
        key=lambda parts: math.fsum(worth[each] for each in zip(designs, parts, strict=True)),
    )
    shares = {each: budget * part / _PARTS for each, part in zip(designs, best, strict=True)}
    if blocks is not None and Design.SOLO in shares:
        # A solo block takes what it takes; the others share the rest as they would have.
        rest = 1 - shares[Design.SOLO] / budget
        solo = blocks * costs[Design.SOLO].block
        shares = {each: (budget - solo) * share / budget / rest for each, share in shares.items()}
        shares[Design.SOLO] = solo
    return max(0.0, shares[design])


def _list_partitions(number: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to share :data:`_PARTS` among so many designs, each with one at least."""
    cuts = range(1, _PARTS)
    if number == 2:
        yield from ((cut, _PARTS - cut) for cut in cuts)
    else:
        for first in cuts:
            for second in range(first + 1, _PARTS):
                yield tuple(b - a for a, b in pairwise((0, first, second, _PARTS)))


def _find_worth(costs: DesignCosts, seconds: float, hurdle: Hurdle) -> float:
    """Return ln of the probability that a design clears its hurdle in so many seconds. Where not
    two blocks fit it is the less, the less fits.
    """
    chance = max(
        (chance for _, _, chance in _list_block_plans(costs, seconds, hurdle)), default=None
    )
    if chance is not None:
        return chance
    missing = costs.once + 2 * (costs.block + costs.load * costs.least_load) - seconds
    return -1e6 - missing


def choose_blocks(setting: PreparedCampaign, design: Design, seconds: float) -> tuple[int, float]:
    """Return how many blocks a design should have in so many seconds, and the seconds of load of
    each server in one.
    """
    costs, hurdle = _find_costs(setting, design), _list_hurdles(setting)[design]
    plans = list(_list_block_plans(costs, seconds, hurdle))
    if not plans:
        return 1, costs.least_load
    blocks, load, _ = max(plans, key=lambda plan: plan[2])
    return blocks, load


def _list_block_plans(
    costs: DesignCosts, seconds: float, hurdle: Hurdle
) -> Iterator[tuple[int, float, float]]:
    """Yield (blocks, seconds of load in each, ln of the chance to clear the hurdle) of what fits
    into so many seconds.
    """
    for blocks in (*range(2, FIRST_LOOK), *_NUMBERS):
        spare = (seconds - costs.once) / blocks - costs.block
        load = spare / costs.load if costs.load else 0.0
        if spare >= 0 and load >= costs.least_load:
            yield blocks, load, hurdle.find_log_chance(costs.scatter(load), blocks)


def _find_costs(setting: PreparedCampaign, design: Design) -> DesignCosts:
    workloads = len(setting.experiment.workloads)
    match design:
        case Design.SOLO:
            block = usual_blocks.estimate_solo_block(setting).seconds
            return DesignCosts(block=block, scatter=lambda _: _MEMORY_SCATTER)
        case Design.DUET:
            duet = usual_blocks.estimate_duet_costs(setting)
            return DesignCosts(
                once=usual_blocks.estimate_pilot_seconds(setting),
                block=duet.block(_SLICE, 0),
                load=duet.pairings * workloads,
                least_load=2 * LEAST_PAIRS * _SLICE,
                scatter=lambda load: usual_blocks.USUAL.block(
                    _COUNTED, max(1, int(load / (2 * _SLICE)))
                ),
            )
        case Design.TURNS:
            overhead, a_round = usual_blocks.estimate_turns_costs(setting)
            length = setting.experiment.turns.length
            return DesignCosts(
                block=overhead,
                load=a_round / length,
                least_load=usual_blocks.LEAST_ROUNDS * length,
                scatter=lambda load: math.hypot(
                    usual_blocks.TURNS_START, usual_blocks.TURNS_SECOND / math.sqrt(load)
                ),
            )


def _list_hurdles(setting: PreparedCampaign) -> dict[Design, Hurdle]:
    """Return what "Use X" asks of each design's measure."""
    experiment = setting.experiment
    variants, workloads = experiment.count_compared() + 1, len(experiment.workloads)
    shares = declare_shares(list_judged(setting.designs), variants, workloads)
    together = max(len(part.variant) for part in experiment.split_by_cpus())
    margin = setting.margin or DEFAULT_MARGIN

    def find_interval_level(blocks: int) -> float:
        return (1 + declare_procedure(blocks, shares).levels[MEMORY]) / 2

    def find_bound_level(measure: str) -> Callable[[int], float]:
        return lambda blocks: declare_procedure(blocks, shares).bound_levels[measure]

    hurdles = {}
    for design, measure, distance in (
        (Design.SOLO, MEMORY, math.log((1 - MARGIN) / (1 - SAVED))),
        (Design.DUET, CPU, math.log(1 + margin)),
        (Design.TURNS, THROUGHPUT, -math.log(1 - margin)),
    ):
        if measure in shares:
            error = shares[measure].of_each if measure == MEMORY else shares[measure].of_bound
            hurdles[design] = Hurdle(
                distance=distance,
                level=find_interval_level if measure == MEMORY else find_bound_level(measure),
                borrowed=count_common_freedom(together, error),
                times=1 if measure == MEMORY else workloads,
            )
    return hurdles
