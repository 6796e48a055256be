"""Choose who is put forward: at most three configurations in all, each of which its search shows to
gain more than luck would. Pure.

A configuration that looks best among many noisy ones is partly lucky. So its mean is shrunk
towards no difference, the more the fewer trials it has; each setting has to earn its place; and
what is left has to be a gain worth having.
"""

from collections.abc import Sequence

from dballoc.analysis.decisions.preference import Objective
from dballoc.analysis.tune.search_history import Standing

# The gain that a finalist must promise, as ln, and how many trials' worth of doubt there is.
LEAST_GAIN = 0.02
_DOUBT = 1.0
# What each setting must gain at least, as ln: of two that gain alike, the simpler one is better.
_PER_SETTING = 0.004
# What a configuration seems to cost beyond the bound counts against its gain, so many times; one
# that seems to cost this much more is not put forward, as ln. A short trial's CPU is noisy: the
# confirmation decides.
_BEYOND = 3.0
_SLACK = 0.03
# The second and third finalist are of those that seem to keep to the bound by so much, as ln, in
# case the first one does not.
_SAFER = (0.01, 0.03)


def choose_finalists(
    standings: Sequence[Standing], objective: Objective, bound: float, most: int
) -> list[Standing]:
    """Return the finalists: the best of each base, the most promising first, then the best of the
    safer ones, and of all that are left. ``bound``: ln of what the other objective may cost.
    """
    ranked = rank_promising(standings, objective, bound)
    chosen = list({s.base: s for s in reversed(ranked)}.values())
    chosen.sort(key=lambda s: compute_promise(s, objective, bound))
    for margin in _SAFER:
        safer = [s for s in ranked if get_price(s, objective) <= bound - margin]
        chosen += [s for s in safer if s not in chosen][:1]
    return [*chosen, *(s for s in ranked if s not in chosen)][:most]


def rank_promising(
    standings: Sequence[Standing], objective: Objective, bound: float
) -> list[Standing]:
    """Return the configurations that promise a gain and keep to the bound as far as their trials
    show, the most promising first. One with a fault in any trial does not.
    """
    eligible = [
        s
        for s in standings
        if s.parameters
        and s.trials == s.attempts > 0
        and compute_promise(s, objective, bound) < -LEAST_GAIN
        and get_price(s, objective) <= bound + _SLACK
    ]
    return sorted(eligible, key=lambda s: compute_promise(s, objective, bound))


def compute_promise(standing: Standing, objective: Objective, bound: float) -> float:
    """Return ln of the ratio that a configuration promises, shrunk by its doubt, with what its
    settings and what it costs beyond the bound take away; the lower the better.
    """
    value = (standing.memory if objective == "memory" else standing.cost) or 0.0
    certainty = standing.trials / (standing.trials + _DOUBT)
    beyond = max(0.0, get_price(standing, objective) - bound)
    return value * certainty + _PER_SETTING * len(standing.parameters) + _BEYOND * beyond


def get_price(standing: Standing, objective: Objective) -> float:
    """Return ln of what a configuration seems to cost in the other objective."""
    return (standing.cost if objective == "memory" else standing.memory) or 0.0
