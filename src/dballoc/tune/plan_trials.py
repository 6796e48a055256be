"""Plan a search's trials: what is tried next follows from what was tried. Pure.

Each base has its default first, then the presets; of servers then what replays put forward, and
where there were none, if there is time enough, each knob alone at either end; then the sampler
proposes. The default comes again every so often, because a machine drifts. The last part of the
time goes to the leaders: each again, because the best of many noisy trials are partly luck, and
without the settings that do not seem to earn their place, because most of what a sampler sets does
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dballoc.analysis.decisions.preference import Objective
from dballoc.analysis.tune.search_history import (
    Origin,
    Stage,
    Tried,
    compare_with_default,
    list_front,
    summarize_standings,
)
from dballoc.tune.choose_finalists import choose_finalists, rank_promising, simplify
from dballoc.tune.propose_parameters import Outcome, propose_parameters
from dballoc.tune.search_space import Parameters, Space

# Trials of the default before anything else, and after how many others it comes again. Where none
# of so many ended well, there is nothing to compare with.
_DEFAULTS_FIRST = 2
_DEFAULTS_AT_MOST = 3
_DEFAULT_AGAIN = 12
# From this share of the search on, what would be put forward is refined: so many of each base,
# until each has so many trials; the first one is left without single settings once it has a second
# trial.
REFINE_FROM = 0.8
_LEADERS = 3
_REPEATS = 4
_BEFORE_SIMPLER = 2
# So many configurations of a base that replays put forward are tried on servers.
_REPLAYED = 8
# Single knobs are tried where they take no more than this share of a base's trials.
_SINGLES_SHARE = 0.5


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


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How far a stage of the search is: the share of its time that is over, and how many ``trials``
    of each base it is expected to have in all.
    """

    progress: float
    trials: float


def plan_next_trial(
    spaces: Mapping[str, Space],
    tried: Sequence[Tried],
    stage: Stage,
    aim: SearchAim,
    pace: Pace,
) -> Candidate | None:
    """Return what to try next at a stage; None once every base has nothing left that would tell
    more, as when its default cannot be run. ``spaces``: by base.
    """
    of_stage = [t for t in tried if t.stage == stage]
    for base in sorted(spaces, key=lambda name: sum(1 for t in of_stage if t.base == name)):
        trials = [t for t in of_stage if t.base == base]
        first: list[tuple[Origin, Parameters]] = [("preset", p) for p in spaces[base].presets]
        if stage == "server":
            first += [("front", p) for p in list_replayed_front(tried, base, aim)]
        if chosen := _choose_parameters(spaces[base], first, trials, aim, pace):
            origin, parameters = chosen
            name = name_variant(base, parameters, tried)
            return Candidate(base=base, origin=origin, parameters=parameters, variant=name)
    return None


def _choose_parameters(
    space: Space,
    first: Sequence[tuple[Origin, Parameters]],
    trials: Sequence[Tried],
    aim: SearchAim,
    pace: Pace,
) -> tuple[Origin, Parameters] | None:
    defaults = [t for t in trials if not t.parameters]
    if len(defaults) < _DEFAULTS_FIRST:
        return "default", {}
    if all(t.fault is not None for t in defaults):
        return ("default", {}) if len(defaults) < _DEFAULTS_AT_MOST else None
    since = len(trials) - max(i for i, t in enumerate(trials, 1) if not t.parameters)
    if since >= _DEFAULT_AGAIN:
        return "default", {}
    tried = [dict(t.parameters) for t in trials]
    for origin, parameters in first:
        if dict(parameters) not in tried:
            return origin, parameters
    if pace.progress >= REFINE_FROM and (refined := _refine_leaders(trials, aim)):
        return refined
    has_front = any(origin == "front" for origin, _ in first)
    if not has_front and len(space.singles) <= _SINGLES_SHARE * pace.trials:
        for single in space.singles:
            if dict(single) not in tried:
                return "single", single
    outcomes = [make_outcome(t, trials, aim) for t in trials]
    proposed = propose_parameters(space, outcomes, 2, aim.seed)
    if proposed is not None:
        return "search", proposed
    # There are no other configurations.
    return _refine_leaders(trials, aim)


def list_replayed_front(tried: Sequence[Tried], base: str, aim: SearchAim) -> list[Parameters]:
    """Return what replays put forward of a base: their front as far as it keeps near the bound, the
    most promising first.
    """
    standings = [s for s in summarize_standings(tried, "replay") if s.base == base]
    ranked = rank_promising(standings, aim.objective, aim.bound)
    front = {s.variant for s in list_front(standings)}
    return [s.parameters for s in ranked if s.variant in front or s is ranked[0]][:_REPLAYED]


def make_outcome(trial: Tried, trials: Sequence[Tried], aim: SearchAim) -> Outcome:
    """Return a trial as the sampler takes it: the objective that is searched for first."""
    ratios = compare_with_default(trial, trials)
    if ratios is None:
        return Outcome(parameters=trial.parameters, objectives=None)
    memory, cost = ratios
    objectives = (cost, memory) if aim.objective == "speed" else (memory, cost)
    return Outcome(parameters=trial.parameters, objectives=objectives)


def _refine_leaders(trials: Sequence[Tried], aim: SearchAim) -> tuple[Origin, Parameters] | None:
    """Return what would be put forward now without the settings that do not seem to earn their
    place; then the first of it with a setting less; or one of it to try again. None if all is done.
    """
    standings = summarize_standings(trials, trials[0].stage)
    leaders = choose_finalists(standings, aim.objective, aim.bound, _LEADERS)
    if not leaders:
        return None
    first, least = leaders[0], min(leaders, key=lambda s: s.trials)
    tried = [dict(s.parameters) for s in standings]
    for leader in leaders:
        simpler = dict(simplify(leader, standings, aim.objective, aim.bound))
        if simpler not in tried:
            return "simpler", simpler
    if first.trials < _BEFORE_SIMPLER:
        return "again", first.parameters
    for name in first.parameters:
        simpler = {n: v for n, v in first.parameters.items() if n != name}
        if simpler not in tried:
            return "simpler", simpler
    return ("again", least.parameters) if least.trials < _REPEATS else None


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
