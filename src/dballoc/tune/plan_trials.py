"""Plan a search's trials: what is tried next follows from what was tried. Pure.

Each base has its default first, then the presets; then the sampler proposes, with the default again
every so often, because a machine drifts. The last part of the time goes to trials of the leaders
again: the best of many noisy trials are partly luck.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dballoc.analysis.decisions.preference import Objective
from dballoc.analysis.tune.search_history import (
    Origin,
    Stage,
    Standing,
    Tried,
    compare_with_default,
    summarize_standings,
)
from dballoc.tune.choose_finalists import compute_promise, is_promising
from dballoc.tune.propose_parameters import Outcome, propose_parameters
from dballoc.tune.search_space import Parameters, Space

# Trials of the default before anything else, and after how many others it comes again.
_DEFAULTS_FIRST = 2
_DEFAULT_AGAIN = 8
# From this share of the search on, the leaders are tried again, so many of each base until each has
# so many trials.
REPEAT_FROM = 0.7
_LEADERS = 3
_REPEATS = 4


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A configuration to try: the parameters that change ``base``, and where they come from."""

    base: str
    origin: Origin
    parameters: Parameters
    variant: str


@dataclass(frozen=True, kw_only=True)
class SearchAim:
    """What is searched for: the ``objective``, and ln of what the other one may cost."""

    objective: Objective
    bound: float
    seed: int


def plan_next_trial(
    spaces: Mapping[str, Space],
    tried: Sequence[Tried],
    stage: Stage,
    aim: SearchAim,
    progress: float,
) -> Candidate:
    """Return what to try next at a stage. ``spaces``: by base; ``progress``: the share of the
    search's time that is over.
    """
    of_stage = [t for t in tried if t.stage == stage]
    base = min(spaces, key=lambda name: sum(1 for t in of_stage if t.base == name))
    space, trials = spaces[base], [t for t in of_stage if t.base == base]
    origin, parameters = _choose_parameters(space, trials, stage, aim, progress)
    return Candidate(
        base=base,
        origin=origin,
        parameters=parameters,
        variant=name_variant(base, parameters, tried),
    )


def _choose_parameters(
    space: Space, trials: Sequence[Tried], stage: Stage, aim: SearchAim, progress: float
) -> tuple[Origin, Parameters]:
    defaults = [t for t in trials if not t.parameters]
    if len(defaults) < _DEFAULTS_FIRST:
        return "default", {}
    since = len(trials) - max(i for i, t in enumerate(trials, 1) if not t.parameters)
    if since >= _DEFAULT_AGAIN:
        return "default", {}
    tried = [dict(t.parameters) for t in trials]
    for preset in space.presets:
        if dict(preset) not in tried:
            return "preset", preset
    if progress >= REPEAT_FROM and (leader := find_leader_to_repeat(trials, stage, aim)):
        return "again", leader.parameters
    if not space.knobs:
        return "default", {}
    outcomes = [make_outcome(t, trials, aim) for t in trials]
    return "search", propose_parameters(space, outcomes, 2, aim.seed)


def make_outcome(trial: Tried, trials: Sequence[Tried], aim: SearchAim) -> Outcome:
    """Return a trial as the sampler takes it: the objective that is searched for first."""
    ratios = compare_with_default(trial, trials)
    if ratios is not None and aim.objective == "speed":
        ratios = ratios[1], ratios[0]
    return Outcome(parameters=trial.parameters, objectives=ratios)


def find_leader_to_repeat(trials: Sequence[Tried], stage: Stage, aim: SearchAim) -> Standing | None:
    """Return the leader with the fewest trials; None once all have enough."""
    standings = summarize_standings(trials, stage)
    promising = [s for s in standings if is_promising(s, aim.objective, aim.bound)]
    leaders = sorted(promising, key=lambda s: compute_promise(s, aim.objective))[:_LEADERS]
    least = min(leaders, key=lambda s: s.trials, default=None)
    return least if least is not None and least.trials < _REPEATS else None


def name_variant(base: str, parameters: Parameters, tried: Sequence[Tried]) -> str:
    """Return the name of a configuration: that of the base without any parameters, the one that it
    had before, or a new number behind the base's.
    """
    if not parameters:
        return base
    earlier = {t.variant: dict(t.parameters) for t in tried if t.base == base and t.parameters}
    for name, values in earlier.items():
        if values == dict(parameters):
            return name
    return f"{base}-{len(earlier) + 1}"
