"""Choose who is put forward: at most three configurations in all, each of which its search shows to
gain more than luck would. Pure.

A configuration that looks best among many noisy ones is partly lucky. So its mean is shrunk towards
no difference, the more the fewer trials it has, and what is left has to be a gain worth having.
"""

from collections.abc import Sequence

from dballoc.analysis.decisions.preference import Objective
from dballoc.analysis.tune.search_history import Standing

# The gain that a finalist must promise, as ln, and how many trials' worth of doubt there is.
LEAST_GAIN = 0.02
_DOUBT = 1.0
# A finalist may cost this much more than the bound, as ln: a short trial's CPU is noisy, and the
# confirmation decides.
_SLACK = 0.03


def choose_finalists(
    standings: Sequence[Standing], objective: Objective, bound: float, most: int
) -> list[Standing]:
    """Return the finalists, the most promising first: the best of each base, then the best that
    are left. ``bound``: ln of what the other objective may cost.
    """
    promising = sorted(
        (s for s in standings if is_promising(s, objective, bound)),
        key=lambda s: compute_promise(s, objective),
    )
    first = list({s.base: s for s in reversed(promising)}.values())
    first.sort(key=lambda s: compute_promise(s, objective))
    others = [s for s in promising if s not in first]
    return [*first, *others][:most]


def is_promising(standing: Standing, objective: Objective, bound: float) -> bool:
    """Whether a configuration promises a gain and keeps to the bound, as far as trials show."""
    if not standing.parameters or standing.memory is None or standing.cost is None:
        return False
    if standing.trials < standing.attempts:
        return False  # a fault in one trial of several is a fault
    price = standing.cost if objective == "memory" else standing.memory
    return compute_promise(standing, objective) < -LEAST_GAIN and price <= bound + _SLACK


def compute_promise(standing: Standing, objective: Objective) -> float:
    """Return ln of the ratio that a configuration promises, shrunk by its doubt; the lower the
    better.
    """
    value = standing.memory if objective == "memory" else standing.cost
    return (value or 0.0) * standing.trials / (standing.trials + _DOUBT)
