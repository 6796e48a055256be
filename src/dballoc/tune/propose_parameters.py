"""Propose what a search tries next, by Optuna, from what it has tried. The study is made anew from
the trials in the results each time, so there is no other state, and a resume goes on alike.

The sampler is a tree-structured Parzen estimator for several objectives (Ozaki et al.,
Multiobjective tree-structured Parzen estimator, JAIR 73, 2022), which knows conditional parameters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import optuna

from dballoc.tune.search_space import Knob, Parameters, Space

# What a configuration that failed counts as, as ln of the ratio to the default: worse than any that
# ran, so that the search leaves its neighbourhood.
FAILED = math.log(8)

# Trials at random before the sampler has anything to go by.
_STARTUP = 8
# How often a proposal that was tried before is drawn again before it is taken nevertheless.
_REDRAWS = 20


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a configuration gave: ``objectives``, each a natural logarithm of a ratio to the default
    that should be low; None where the trial ended in a fault.
    """

    parameters: Parameters
    objectives: tuple[float, ...] | None


def propose_parameters(
    space: Space, outcomes: Sequence[Outcome], objectives: int, seed: int
) -> dict[str, str]:
    """Return the parameters to try next, after ``outcomes`` with so many ``objectives`` each."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = make_study(space, outcomes, objectives, seed + len(outcomes))
    tried = [dict(outcome.parameters) for outcome in outcomes]
    parameters: dict[str, str] = {}
    for _ in range(_REDRAWS):
        parameters = _draw_parameters(space, study.ask())
        if parameters and parameters not in tried:
            break
    return parameters


def make_study(
    space: Space, outcomes: Sequence[Outcome], objectives: int, seed: int
) -> optuna.Study:
    """Return a study in memory with these outcomes."""
    study = optuna.create_study(
        directions=["minimize"] * objectives,
        sampler=optuna.samplers.TPESampler(
            multivariate=True, group=True, n_startup_trials=_STARTUP, seed=seed
        ),
    )
    study.add_trials(
        [
            _make_trial(space, outcome, objectives)
            for outcome in outcomes
            if all(_find_knob(space, n).takes(v) for n, v in outcome.parameters.items())
        ]
    )
    return study


def _find_knob(space: Space, name: str) -> Knob:
    # A setting of an earlier run's that is no knob any more takes nothing.
    return next((k for k in space.knobs if k.name == name), Knob(name=name, words=("",)))


def _make_trial(space: Space, outcome: Outcome, objectives: int) -> optuna.trial.FrozenTrial:
    params: dict[str, Any] = {}
    distributions: dict[str, optuna.distributions.BaseDistribution] = {}
    for knob in space.knobs:
        if not knob.is_active(outcome.parameters):
            continue
        value = outcome.parameters.get(knob.name)
        for name, distribution in _list_distributions(knob, is_set=value is not None):
            distributions[name] = distribution
            if name == knob.name and not knob.words:
                assert value is not None
                params[name] = int(value).bit_length() - 1 if knob.powers else int(value)
            elif knob.words:
                params[name] = value or ""
            else:
                params[name] = value is not None
    return optuna.trial.create_trial(
        params=params,
        distributions=distributions,
        values=outcome.objectives or [FAILED] * objectives,
    )


def _list_distributions(
    knob: Knob, *, is_set: bool
) -> list[tuple[str, optuna.distributions.BaseDistribution]]:
    """Return Optuna's parameters of a knob: a choice that has an empty word for leaving it alone;
    or whether it is set, and if so the number (its logarithm to base 2 where it is a power).
    """
    if knob.words:
        words = ("", *knob.words)
        return [(knob.name, optuna.distributions.CategoricalDistribution(words))]
    switch = (f"{knob.name}?", optuna.distributions.CategoricalDistribution((False, True)))
    if not is_set:
        return [switch]
    if knob.powers:
        first, last = (knob.least - 1).bit_length(), knob.most.bit_length() - 1
        number = optuna.distributions.IntDistribution(first, last)
    else:
        number = optuna.distributions.IntDistribution(knob.least, knob.most, log=knob.log)
    return [switch, (knob.name, number)]


def _draw_parameters(space: Space, trial: optuna.Trial) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for knob in space.knobs:
        if not knob.is_active(parameters):
            continue
        if knob.words:
            if word := trial.suggest_categorical(knob.name, ("", *knob.words)):
                parameters[knob.name] = str(word)
            continue
        if not trial.suggest_categorical(f"{knob.name}?", (False, True)):
            continue
        if knob.powers:
            first, last = (knob.least - 1).bit_length(), knob.most.bit_length() - 1
            parameters[knob.name] = str(2 ** trial.suggest_int(knob.name, first, last))
        else:
            parameters[knob.name] = str(
                trial.suggest_int(knob.name, knob.least, knob.most, log=knob.log)
            )
    return parameters
