"""Choose, of what the sampler proposes, what is tried next, by ``estimate_effects``. Pure.

Two aims take turns: the best gain within the bound, and the front, which says what each per cent of
memory costs. For either, a proposal is worth by how much it is expected to raise what is known
already, over draws of what may be true of all configurations together (expected improvement, and
expected hypervolume improvement: Emmerich, Single- and multi-objective evolutionary optimization
assisted by Gaussian random field metamodels, 2005).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dballoc.analysis.decisions.preference import Objective
from dballoc.analysis.tune.search_history import Standing
from dballoc.tune.choose_finalists import (
    MOST_DRAWN,
    Prospects,
    draw_effects,
    draw_gains,
    rank_base,
)
from dballoc.tune.estimate_effects import Floats

# The front is measured up to here, as ln of the ratio to the default, on either measure.
_WORST = 0.2
_DRAWS = 100

Proposals = Sequence[Mapping[str, str]]


def choose_for_gain(
    proposed: Proposals, standings: Sequence[Standing], objective: Objective, bound: float
) -> Mapping[str, str]:
    """Return that of the proposed parameters, which were not tried yet, that raises most the best
    gain which a configuration of the base is expected to have; the first one if nothing is known
    yet. ``standings``: of one base.
    """
    estimated = _estimate(proposed, standings, objective, bound)
    if estimated is None:
        return proposed[0]
    prospects = estimated.prospects
    best = [p.place for p in prospects.ranked if p.standing.trials][:MOST_DRAWN]
    gains = draw_gains(prospects, [*best, *estimated.places], bound)
    already = gains[:, : len(best)].max(axis=1, initial=0.0)
    added = np.maximum(gains[:, len(best) :] - already[:, None], 0.0)
    return estimated.choose(added)


def choose_for_front(
    proposed: Proposals, standings: Sequence[Standing], objective: Objective, bound: float
) -> Mapping[str, str]:
    """Return, of the same, that which is expected to push the front of both measures most."""
    estimated = _estimate(proposed, standings, objective, bound)
    if estimated is None:
        return proposed[0]
    prospects = estimated.prospects
    front = _find_front(prospects.objective.means, prospects.other.means, estimated.places[0])
    values, costs = draw_effects(prospects, [*front, *estimated.places], _DRAWS)
    added = [_measure_additions(v, c, len(front)) for v, c in zip(values, costs, strict=True)]
    return estimated.choose(np.array(added))


@dataclass(frozen=True, kw_only=True)
class _Estimated:
    """The proposals that are worth a trial, and their ``places`` among what was estimated."""

    proposals: Proposals
    places: Sequence[int]
    prospects: Prospects

    def choose(self, added: Floats) -> Mapping[str, str]:
        """Return the proposal that adds most, on the mean of the draws: a row each."""
        return self.proposals[int(np.argmax(added.mean(axis=0)))]


def _estimate(
    proposed: Proposals, standings: Sequence[Standing], objective: Objective, bound: float
) -> _Estimated | None:
    """Estimate what the proposals do, without those that have a setting of which only failures are
    known; None if nothing is known yet.
    """
    default = next((s for s in standings if not s.parameters and s.trials), None)
    others = [s for s in standings if s.parameters and s.trials]
    if default is None or not others:
        return None
    failing = _list_settings(s for s in standings if s.faults) - _list_settings(
        s for s in standings if not s.faults
    )
    hopeful = [p for p in proposed if not failing & p.items()] or proposed
    untried = [
        Standing(base=default.base, variant=str(i), parameters=parameters)
        for i, parameters in enumerate(hopeful)
    ]
    prospects = rank_base(default, [*others, *untried], objective, bound)
    first = len(prospects.judged) - len(untried)
    return _Estimated(
        proposals=hopeful, places=range(first, len(prospects.judged)), prospects=prospects
    )


def _list_settings(standings: Iterable[Standing]) -> set[tuple[str, str]]:
    return {setting for s in standings for setting in s.parameters.items()}


def _find_front(values: Floats, costs: Floats, tried: int) -> list[int]:
    """Return the places of the ``tried`` first ones than which none is better on both measures."""
    front: list[int] = []
    for place in np.lexsort((costs[:tried], values[:tried])):
        if not front or costs[place] < costs[front[-1]]:
            front.append(int(place))
    return front[:MOST_DRAWN]


def _measure_additions(values: Floats, costs: Floats, first: int) -> Floats:
    """Return the area that each configuration after the ``first`` ones adds to theirs and the
    default's: what it is better than on both measures, and none of those is.
    """
    steps = np.append(values[:first], 0.0)
    order = np.argsort(steps)
    edges = np.concatenate(([-np.inf], np.minimum(steps[order], _WORST), [_WORST]))
    # From each edge to the next nothing known costs less than this.
    least = np.minimum.accumulate(np.append(_WORST, np.append(costs[:first], 0.0)[order]))
    widths = edges[1:] - np.maximum(edges[:-1], values[first:, None])
    heights = least - costs[first:, None]
    return (np.maximum(widths, 0.0) * np.maximum(heights, 0.0)).sum(axis=1)
