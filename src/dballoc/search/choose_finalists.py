"""Choose who is put forward: at most three configurations, each with a gain in the search beyond
luck. Pure.

A configuration that looks best among many noisy ones is partly lucky, and one that looks dear is
partly unlucky. So nothing goes by a reading itself: ``estimate_effects`` says what is likely of
each. What a configuration promises is its gain times the chance that it keeps to the bound; each
setting has to earn its place; and what is left has to be a gain worth having.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dballoc.questions.campaign.answer.conditions_and_preference import Objective
from dballoc.questions.tune.estimate_effects import (
    Effects,
    Floats,
    Measure,
    draw_effects,
    estimate_effects,
)
from dballoc.questions.tune.search_history import ConfigurationResult

# The gain that a finalist must be expected to have, as ln.
LEAST_GAIN = 0.02
# What each setting must gain at least, as ln: of two that gain alike, the simpler one is better.
_PER_SETTING = 0.004
# A finalist has to be shown to keep to the bound, so it must cost less, by half the width of the
# confirmation's interval: as ln, of CPU with memory for the objective, else of memory, as seen with
# ten blocks on two cores.
HALF_WIDTH: dict[Objective, float] = {"memory": 0.012, "speed": 0.006}
# The chance of that which a finalist must have. The confirmation decides.
_LEAST_CHANCE = 0.1
# Of more configurations of a base only those with the best readings are looked at.
_MOST = 300
# Finalists are chosen among so many by so many draws of what may be true.
MOST_DRAWN, _DRAWS = 40, 1000


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """A configuration with what is likely of it: its ``promise``, the higher the better; ``place``:
    among the effects of its base.
    """

    standing: ConfigurationResult
    promise: float
    place: int


@dataclass(frozen=True, kw_only=True)
class Prospects:
    """The configurations of a base that promise a gain, the most promising first, with the effects
    on the objective and on the other measure of all that were estimated: ``judged``.
    """

    ranked: list[Prospect]
    judged: list[ConfigurationResult]
    objective: Effects
    other: Effects


def choose_finalists(
    standings: Sequence[ConfigurationResult], objective: Objective, bound: float, most: int
) -> list[ConfigurationResult]:
    """Return the finalists: the best of each base, the most promising first; then those that add
    most in case these do not hold what they promise. ``bound``: ln of what the other objective may
    cost.
    """
    bound -= HALF_WIDTH[objective]
    bases = [p for p in _list_prospects(standings, objective, bound) if p.ranked]
    bases.sort(key=lambda p: -p.ranked[0].promise)
    chosen = [p.ranked[0].standing for p in bases]
    additions = [addition for p in bases for addition in _add_prospects(p, bound, most)]
    additions.sort(key=lambda addition: -addition[0])
    return [*chosen, *(standing for _, standing in additions)][:most]


def _add_prospects(
    prospects: Prospects, bound: float, most: int
) -> list[tuple[float, ConfigurationResult]]:
    """Return the finalists of a base after its first one, each with what it adds to the best gain
    that one of them is expected to have, in draws of what may be true of all of them together.
    """
    ranked = prospects.ranked[:MOST_DRAWN]
    gains = draw_gains(prospects, [p.place for p in ranked], bound)
    best, others = gains[:, 0], list(range(1, len(ranked)))
    additions: list[tuple[float, ConfigurationResult]] = []
    while others and len(additions) < most - 1:
        added = np.maximum(gains[:, others] - best[:, None], 0.0).mean(axis=0)
        i = others.pop(int(np.argmax(added)))
        additions.append((float(added.max()), ranked[i].standing))
        best = np.maximum(best, gains[:, i])
    return additions


def draw_gains(prospects: Prospects, places: Sequence[int], bound: float) -> Floats:
    """Return what the configurations at these places gain in each draw of what may be true, a row
    each; nothing where one breaks the bound.
    """
    chance = np.random.default_rng(0)
    values, costs = (
        draw_effects(effects, places, _DRAWS, chance)
        for effects in (prospects.objective, prospects.other)
    )
    settings = np.array([len(prospects.judged[i].parameters) for i in places])
    return np.where(costs <= bound, np.maximum(0.0, -values - _PER_SETTING * settings), 0.0)


def rank_promising(
    standings: Sequence[ConfigurationResult], objective: Objective, bound: float
) -> list[ConfigurationResult]:
    """Return the configurations that promise a gain and may keep to the bound, the most promising
    first. One with a fault in any trial does not.
    """
    prospects = [p for b in _list_prospects(standings, objective, bound) for p in b.ranked]
    return [p.standing for p in sorted(prospects, key=lambda p: -p.promise)]


def _list_prospects(
    standings: Sequence[ConfigurationResult], objective: Objective, bound: float
) -> list[Prospects]:
    """Return the prospects of each base whose default has figures."""
    defaults = [s for s in standings if not s.parameters and s.trials]
    of_bases = [
        [s for s in standings if s.base == default.base and s.parameters and s.trials]
        for default in defaults
    ]
    return [
        rank_base(default, of_base, objective, bound)
        for default, of_base in zip(defaults, of_bases, strict=True)
        if of_base
    ]


def rank_base(
    default: ConfigurationResult,
    standings: Sequence[ConfigurationResult],
    objective: Objective,
    bound: float,
) -> Prospects:
    """Estimate the configurations of a base, also of those without a trial, and rank those that
    promise a gain. Of very many only those with the best readings are estimated.
    """
    measured = [s for s in standings if s.trials]
    best = sorted(measured, key=lambda s: getattr(s, _order_measures(objective)[0]))[:_MOST]
    judged = [*best, *(s for s in standings if not s.trials)]
    effects, other = (estimate_effects(default, judged, m) for m in _order_measures(objective))
    ranked = []
    for place, standing in enumerate(judged):
        gain = float(-effects.means[place]) - _PER_SETTING * len(standing.parameters)
        error = math.sqrt(max(1e-12, float(other.covariance[place, place])))
        chance = float(ndtr((bound - other.means[place]) / error))
        if gain > LEAST_GAIN and chance >= _LEAST_CHANCE and not standing.faults:
            ranked.append(Prospect(standing=standing, promise=gain * chance, place=place))
    ranked.sort(key=lambda p: -p.promise)
    return Prospects(ranked=ranked, judged=judged, objective=effects, other=other)


def _order_measures(objective: Objective) -> tuple[Measure, Measure]:
    return ("memory", "cost") if objective == "memory" else ("cost", "memory")


def simplify(
    standing: ConfigurationResult,
    standings: Sequence[ConfigurationResult],
    objective: Objective,
    bound: float,
) -> Mapping[str, str]:
    """Return the settings of a configuration without those that it promises as much or more
    without, as far as the trials of all ``standings`` of its base tell; its own if each earns its
    place. One after another is left out, each time the one without which most is promised.
    """
    bound -= HALF_WIDTH[objective]
    [default] = [s for s in standings if not s.parameters]
    others = [s for s in standings if s.parameters and s.trials]
    path = [standing]
    while len(path[-1].parameters) > 1:
        longer = path[-1].parameters
        shorter = [{n: v for n, v in longer.items() if n != name} for name in longer]
        tried = [dict(s.parameters) for s in others]
        untried = [
            ConfigurationResult(base=standing.base, variant=str(i), parameters=parameters)
            for i, parameters in enumerate(shorter)
            if parameters not in tried
        ]
        ranked = rank_base(default, [*others, *untried], objective, bound).ranked
        best = next((p.standing for p in ranked if dict(p.standing.parameters) in shorter), None)
        if best is None:
            break
        path.append(best)
    untried = [s for s in path if not s.trials]
    ranked = rank_base(default, [*others, *untried], objective, bound).ranked
    on_path = [p.standing for p in ranked if p.standing in path]
    return on_path[0].parameters if on_path else standing.parameters
