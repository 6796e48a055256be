"""Parse what a search is for: ``memory``, ``speed``, or ``rss, cpu<=1.01``. Pure."""

import math
from collections.abc import Collection

from dballoc.ground.errors import UsageError
from dballoc.questions.campaign.answer.conditions_and_preference import (
    Objective,
    Preference,
    parse_preference,
)
from dballoc.search.plan_trials import SearchAim

# What the other objective may cost where nothing is said: 3 %.
_USUAL_BOUND = 1.03
_MEASURES: dict[Objective, str] = {"memory": "rss", "speed": "cpu"}
_OTHER: dict[Objective, Objective] = {"memory": "speed", "speed": "memory"}


def parse_aim(text: str) -> Preference:
    """Return the rule by which finalists are judged. A bare ``rss`` or ``cpu`` is the objective;
    without a condition the other one may cost 3 %. Raises UsageError for anything else.
    """
    aims = {measure: aim for aim, measure in _MEASURES.items()}
    words = [aims.get(word.strip(), word.strip()) for word in text.split(",")]
    try:
        preference = parse_preference(",".join(words))
        if preference.constraints:
            return preference
        bound = f"{_MEASURES[_OTHER[preference.objective]]}<={_USUAL_BOUND}"
        return parse_preference(f"{preference.objective},{bound}")
    except UsageError as error:
        raise UsageError(str(error).replace("--prefer", "--for")) from None


def check_bounds(preference: Preference, bases: Collection[str]) -> None:
    """Raise UsageError for a bound on one of the bases alone: it would bind the default itself, and
    no configuration that is derived from it.
    """
    for constraint in preference.constraints:
        for word in constraint.within:
            if word in bases:
                raise UsageError(
                    f"--for: {constraint.text!r}: a bound is for the configurations of every "
                    f"allocator; leave out '{word}:', or search {word} alone"
                )


def make_search_aim(preference: Preference, seed: int) -> SearchAim:
    """Return what the search goes by: the objective, and ln of what the other one may cost; without
    a bound on that, infinity. It knows one cost, the mean over the workloads, so the bound on any
    of them is taken for that.
    """
    other = _MEASURES[_OTHER[preference.objective]]
    bounds = [c.bound for c in preference.constraints if c.measure == other]
    return SearchAim(
        objective=preference.objective,
        bound=math.log(min(bounds, default=math.inf)),
        seed=seed,
    )
