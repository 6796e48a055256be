"""Plan a search's trials: what is tried next follows from what was tried. Pure.

Each base has its default first, then the presets; of servers then what replays put forward, and
where there were none, if there is time enough, each knob alone at either end; then the sampler
proposes. The default comes again every so often, because a machine drifts. Once there are leaders,
each has a duet with the default, by turns with other trials: it tells several times as well what a
configuration costs as two servers one after the other. The last part of the time goes to the
leaders alone: each again, because the best of many noisy trials are partly luck, and without the
settings that do not seem to earn their place, because most of what a sampler sets does nothing.
"""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dballoc.experiment.designs import Design
from dballoc.questions.campaign.answer.conditions_and_preference import Objective
from dballoc.questions.tune.search_history import (
    ConfigurationResult,
    Origin,
    Stage,
    Tried,
    compare_with_default,
    list_front,
    summarize_standings,
)
from dballoc.search.choose_finalists import (
    MOST_DRAWN,
    choose_finalists,
    draw_gains,
    rank_base,
    rank_promising,
    simplify,
)
from dballoc.search.propose_parameters import Evaluation, propose_changes, propose_parameters
from dballoc.search.search_space import THP, Parameters, Space

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
# From this share of the search on leaders have a duet each; two once they are refined.
DUETS_FROM = 0.6
_DUETS, _DUETS_REFINED = 1, 2
# Every other time the sampler proposes so many, and the estimate chooses one.
_PROPOSALS = 8
# So many configurations of a base that replays put forward are tried on servers.
_REPLAYED = 8
# Single knobs are tried where they take no more than this share of a base's trials.
_SINGLES_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A configuration to try: the parameters that change ``base``, where they come from, and
    whether it is tried alone or in a duet with its default.
    """

    base: str
    origin: Origin
    parameters: Parameters
    variant: str
    design: Design = Design.SOLO


@dataclass(frozen=True, kw_only=True)
class SearchAim:
    """What is searched for: the ``objective``, and ln of what the other one may cost."""

    objective: Objective
    bound: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class StageProgress:
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
    pace: StageProgress,
    pairable: Mapping[str, Collection[str]] | None = None,
) -> Candidate | None:
    """Return what to try next at a stage; None once every base has nothing left that would tell
    more, as when its default cannot be run. ``spaces``: by base; ``pairable``: the bases whose
    configurations can be in a duet with their default, each with the host's THP modes that they may
    have in it.
    """
    in_space = select_known(tried, spaces)
    of_stage = [t for t in in_space if t.stage == stage]
    for base in sorted(spaces, key=lambda name: sum(1 for t in of_stage if t.base == name)):
        trials = [t for t in of_stage if t.base == base]
        first: list[tuple[Origin, Parameters]] = [("preset", p) for p in spaces[base].presets]
        if stage == "server":
            first += [("front", p) for p in list_replayed_front(in_space, base, aim)]
        modes = (pairable or {}).get(base)
        duets = modes is not None and all(dict(p) in _list_alone(trials) for _, p in first)
        if duets and _is_time_for_duet(trials, pace):
            most = _DUETS if pace.progress < REFINE_FROM else _DUETS_REFINED
            if leader := _choose_duet(trials, aim, most, modes or ()):
                return _make_duet(leader)
        if chosen := _choose_parameters(spaces[base], first, trials, aim, pace):
            origin, parameters = chosen
            name = name_variant(base, parameters, tried)
            return Candidate(base=base, origin=origin, parameters=parameters, variant=name)
        # Nothing else is left to try.
        if duets and (leader := _choose_duet(trials, aim, _DUETS_REFINED, modes or ())):
            return _make_duet(leader)
    return None


def select_known(tried: Sequence[Tried], spaces: Mapping[str, Space]) -> list[Tried]:
    """Return the trials of configurations that are in the space of their base: results of an
    earlier run may have others, because the host let it set more, or because somebody changed them.
    """
    return [t for t in tried if is_in_space(t, spaces)]


def is_in_space(trial: Tried, spaces: Mapping[str, Space]) -> bool:
    """Whether the search could have proposed what a trial tried."""
    return trial.base in spaces and spaces[trial.base].takes(trial.parameters)


def _make_duet(leader: ConfigurationResult) -> Candidate:
    return Candidate(
        base=leader.base,
        origin="again",
        parameters=leader.parameters,
        variant=leader.variant,
        design=Design.DUET,
    )


def _list_alone(trials: Sequence[Tried]) -> list[dict[str, str]]:
    return [dict(t.parameters) for t in trials if t.design is Design.SOLO]


def _is_time_for_duet(trials: Sequence[Tried], pace: StageProgress) -> bool:
    """Whether a duet may come next: late enough, and not after another."""
    return pace.progress >= DUETS_FROM and bool(trials) and trials[-1].design is Design.SOLO


def _choose_duet(
    trials: Sequence[Tried], aim: SearchAim, most: int, thp_modes: Collection[str]
) -> ConfigurationResult | None:
    """Return the leader that has a duet next, of ``most`` each; None if all had them, or if duets
    tell nothing here: one could not compare its servers, or the last two failed. ``thp_modes``:
    those that the host can have in a duet beside the default's.
    """
    duets = [t for t in trials if t.design is Design.DUET]
    if any(t.fault is None and not t.ratios for t in duets):
        return None
    if len(duets) > 1 and all(t.fault is not None for t in duets[-2:]):
        return None
    standings = summarize_standings(trials, trials[0].stage) if trials else []
    leaders = choose_finalists(standings, aim.objective, aim.bound, _LEADERS)
    counts = {s.variant: sum(t.variant == s.variant for t in duets) for s in leaders}
    possible = [s for s in leaders if s.parameters.get(THP) in (None, *thp_modes)]
    fewer = [s for s in possible if counts[s.variant] < most]
    return min(fewer, key=lambda s: counts[s.variant], default=None)


def _choose_parameters(
    space: Space,
    first: Sequence[tuple[Origin, Parameters]],
    trials: Sequence[Tried],
    aim: SearchAim,
    pace: StageProgress,
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
    if proposed := _propose(space, trials, aim):
        return "search", proposed
    # There are no other configurations.
    return _refine_leaders(trials, aim)


def _propose(space: Space, trials: Sequence[Tried], aim: SearchAim) -> Parameters | None:
    """Return what the sampler proposes; every other time, of many and of changes to the leader,
    what is expected to raise the best gain most.
    """
    outcomes = list_outcomes(trials, aim)
    chooses = sum(t.origin == "search" for t in trials) % 2 == 1
    proposed = propose_parameters(space, outcomes, 2, aim.seed, _PROPOSALS if chooses else 1)
    if not chooses or not proposed:
        return proposed[0] if proposed else None
    standings = summarize_standings(trials, trials[0].stage)
    for leader in rank_promising(standings, aim.objective, aim.bound)[:1]:
        proposed += propose_changes(space, outcomes, 2, aim.seed, leader.parameters)
    return choose_proposal(proposed, standings, aim.objective, aim.bound)


def list_replayed_front(tried: Sequence[Tried], base: str, aim: SearchAim) -> list[Parameters]:
    """Return what replays put forward of a base: their front as far as it keeps near the bound, the
    most promising first.
    """
    standings = [s for s in summarize_standings(tried, "replay") if s.base == base]
    ranked = rank_promising(standings, aim.objective, aim.bound)
    front = {s.variant for s in list_front(standings)}
    return [s.parameters for s in ranked if s.variant in front or s is ranked[0]][:_REPLAYED]


def list_outcomes(trials: Sequence[Tried], aim: SearchAim) -> list[Evaluation]:
    """Return the trials of a base as the sampler takes them: the objective that is searched for
    first. Where a configuration had duets, they say what it costs.
    """
    standings = summarize_standings(trials, trials[0].stage)
    in_duets = {s.variant: statistics.mean(s.duets) for s in standings if s.duets}
    outcomes = []
    for trial in trials:
        ratios = compare_with_default(trial, trials)
        if ratios is not None:
            objectives = (ratios.memory, in_duets.get(trial.variant, ratios.cost))
            outcomes.append(
                Evaluation(
                    parameters=trial.parameters,
                    objectives=objectives if aim.objective == "memory" else objectives[::-1],
                )
            )
        elif trial.design is Design.SOLO:
            outcomes.append(Evaluation(parameters=trial.parameters, objectives=None))
    return outcomes


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


# -- what the sampler proposes ---------------------------------------------------------------------


def choose_proposal(
    proposed: Sequence[Mapping[str, str]],
    standings: Sequence[ConfigurationResult],
    objective: Objective,
    bound: float,
) -> Mapping[str, str]:
    """Return that of the proposed parameters, which were not tried yet, that raises most the best
    gain which a configuration of the base is expected to have, over draws of what may be true of
    all of them; the first one if nothing is known yet. Parameters with a setting that has only
    failed are left out. ``standings``: of one base.
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
        ConfigurationResult(base=default.base, variant=str(i), parameters=parameters)
        for i, parameters in enumerate(hopeful)
    ]
    prospects = rank_base(default, [*others, *untried], objective, bound)
    best = [p.place for p in prospects.ranked if p.standing.trials][:MOST_DRAWN]
    new = range(len(prospects.judged) - len(untried), len(prospects.judged))
    gains = draw_gains(prospects, [*best, *new], bound)
    already = gains[:, : len(best)].max(axis=1, initial=0.0)
    added = np.maximum(gains[:, len(best) :] - already[:, None], 0.0).mean(axis=0)
    return hopeful[int(np.argmax(added))]


def _list_settings(standings: Iterable[ConfigurationResult]) -> set[tuple[str, str]]:
    return {setting for s in standings for setting in s.parameters.items()}
