"""Estimate what each configuration of a search does in memory and in cost, and which of them are on
the front. Pure.

A front of readings has its places by luck: of many that do the same, the ones that were read low.
So the front is that of the estimate which the search itself goes by, and how sure each place on it
is follows from draws of what may be true of all configurations together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dballoc.analysis.tune.estimate_effects import (
    Effects,
    Floats,
    draw_effects,
    estimate_effects,
)
from dballoc.analysis.tune.search_history import Standing, convert_to_ratio, find_front

# Standard deviations on either side, of an interval at 95 %.
_DEVIATIONS = 1.96
# Of more configurations of a base only those that read lowest in one of both are estimated.
_MOST = 300
_DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class Likely:
    """What is likely of an effect, as ln of a ratio to the default: its mean, and the ends of its
    interval at 95 %.
    """

    mean: float
    low: float
    high: float

    @property
    def is_measurable(self) -> bool:
        """Whether the interval is on one side of no effect."""
        return self.low > 0 or self.high < 0

    @property
    def ratios(self) -> tuple[float, float, float]:
        """The mean and the ends as ratios."""
        mean, low, high = map(convert_to_ratio, (self.mean, self.low, self.high))
        return mean, low, high


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """What is likely of a configuration. ``on_front``: whether it is on the front of what is likely
    of all configurations of its base; ``front_chance``: in which share of what may be true it is.
    """

    standing: Standing
    memory: Likely
    cost: Likely
    on_front: bool
    front_chance: float


_NOTHING = Likely(mean=0.0, low=0.0, high=0.0)


def estimate_front(standings: Sequence[Standing]) -> list[Estimated]:
    """Return what is likely of every configuration that ran, of each base whose default did; the
    default first, which does nothing to itself.
    """
    estimated = []
    for default in standings:
        if not default.parameters and default.trials:
            ran = [s for s in standings if s.base == default.base and s.parameters and s.trials]
            ran.sort(key=lambda s: min(s.memory or 0.0, s.cost or 0.0))
            estimated += _estimate_base(default, ran[:_MOST])
    return estimated


def _estimate_base(default: Standing, standings: Sequence[Standing]) -> list[Estimated]:
    if not standings:
        return [_make_default(default, on_front=True, chance=1.0)]
    memory = estimate_effects(default, standings, "memory")
    cost = estimate_effects(default, standings, "cost")
    # The default is in front of them all, in the means as in the draws.
    front = find_front([(0.0, 0.0), *zip(memory.means, cost.means, strict=True)])
    chances = _share_on_front(memory, cost)
    return [
        _make_default(default, on_front=0 in front, chance=float(chances[0])),
        *(
            Estimated(
                standing=standing,
                memory=describe_effect(memory, i),
                cost=describe_effect(cost, i),
                on_front=i + 1 in front,
                front_chance=float(chances[i + 1]),
            )
            for i, standing in enumerate(standings)
        ),
    ]


def _make_default(default: Standing, *, on_front: bool, chance: float) -> Estimated:
    return Estimated(
        standing=default, memory=_NOTHING, cost=_NOTHING, on_front=on_front, front_chance=chance
    )


def describe_effect(effects: Effects, place: int) -> Likely:
    """Return what is likely of the effect at a place."""
    mean = float(effects.means[place])
    reach = _DEVIATIONS * math.sqrt(max(0.0, float(effects.covariance[place, place])))
    return Likely(mean=mean, low=mean - reach, high=mean + reach)


def _share_on_front(memory: Effects, cost: Effects) -> Floats:
    """Return in which share of draws the default and each configuration are on the front."""
    chance = np.random.default_rng(0)
    places = range(len(memory.means))
    values, costs = (
        np.pad(draw_effects(effects, places, _DRAWS, chance), ((0, 0), (1, 0)))
        for effects in (memory, cost)
    )
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(costs, order, axis=1)
    # Nothing that needs less memory may cost as little.
    least_before = np.minimum.accumulate(ordered, axis=1)[:, :-1]
    on_front = np.ones_like(ordered)
    on_front[:, 1:] = ordered[:, 1:] < least_before
    shares = np.empty_like(on_front)
    np.put_along_axis(shares, order, on_front, axis=1)
    return np.asarray(shares.mean(axis=0))
