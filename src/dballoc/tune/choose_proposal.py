"""Choose, of what the sampler proposes, what is tried next, by ``estimate_effects``. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dballoc.analysis.decisions.preference import Objective
from dballoc.analysis.tune.search_history import Standing
from dballoc.tune.choose_finalists import MOST_DRAWN, draw_gains, rank_base


def choose_proposal(
    proposed: Sequence[Mapping[str, str]],
    standings: Sequence[Standing],
    objective: Objective,
    bound: float,
) -> Mapping[str, str]:
    """Return that of the proposed parameters, which were not tried yet, that raises most the best
    gain which a configuration of the base is expected to have, over draws of what may be true of
    all of them; the first one if nothing is known yet. One that has a setting of which only
    failures are known is none. ``standings``: of one base.
    """
    default = next((s for s in standings if not s.parameters and s.trials), None)
    others = [s for s in standings if s.parameters and s.trials]
    if default is None or not others or len(proposed) == 1:
        return proposed[0]
    failing = _list_settings(s for s in standings if s.faults) - _list_settings(
        s for s in standings if not s.faults
    )
    hopeful = [p for p in proposed if not failing & p.items()] or proposed
    untried = [
        Standing(base=default.base, variant=str(i), parameters=parameters)
        for i, parameters in enumerate(hopeful)
    ]
    prospects = rank_base(default, [*others, *untried], objective, bound)
    best = [p.place for p in prospects.ranked if p.standing.trials][:MOST_DRAWN]
    new = range(len(prospects.judged) - len(untried), len(prospects.judged))
    gains = draw_gains(prospects, [*best, *new], bound)
    already = gains[:, : len(best)].max(axis=1, initial=0.0)
    added = np.maximum(gains[:, len(best) :] - already[:, None], 0.0).mean(axis=0)
    return hopeful[int(np.argmax(added))]


def _list_settings(standings: Iterable[Standing]) -> set[tuple[str, str]]:
    return {setting for s in standings for setting in s.parameters.items()}
