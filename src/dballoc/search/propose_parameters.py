"""Propose what a search tries next, by Optuna, from what it has tried. The study is made anew from
the trials in the results each time, so there is no other state, and a resume goes on alike.

The sampler is a tree-structured Parzen estimator for several objectives (Ozaki et al.,
Multiobjective tree-structured Parzen estimator, JAIR 73, 2022), which takes conditional parameters.
Of each parameter for itself: with so few trials its joint estimate finds less
(benchmarks/tune_simulated.py).
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import optuna

from dballoc.search.search_space import Knob, Parameters, Space

# What a configuration that failed counts as, as ln of the ratio to the default: worse than any that
# ran, so that the search leaves its neighbourhood.
FAILED = math.log(8)

# Trials at random before the sampler has anything to go by.
_STARTUP = 8
# A setting with words is one choice; this word leaves it alone; a number has a switch of its own
# beside it.
_LEFT_ALONE = ""
_SWITCH = optuna.distributions.CategoricalDistribution((False, True))
# How often a proposal that was tried before is drawn again by the sampler, then at random.
_REDRAWS, _RANDOM_REDRAWS = 20, 200
# How often each knob of a configuration is drawn anew.
_CHANGES = 4


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a configuration gave: ``objectives``, each a natural logarithm of a ratio to the default
    that should be low; None where the trial ended in a fault.
    """

    parameters: Parameters
    objectives: tuple[float, ...] | None


def propose_parameters(
    space: Space, outcomes: Sequence[Evaluation], objectives: int, seed: int, most: int = 1
) -> list[dict[str, str]]:
    """Return parameters to try next, ``most`` at most, after ``outcomes`` with so many
    ``objectives`` each; none if nothing was drawn that was not tried before.
    """
    study = make_study(space, outcomes, objectives, seed + len(outcomes))
    tried = [{}, *(dict(outcome.parameters) for outcome in outcomes)]
    proposed: list[dict[str, str]] = []
    for _ in range(max(_REDRAWS, most)):
        if len(proposed) == most:
            return proposed
        if (parameters := draw_parameters(space, study.ask())) not in [*tried, *proposed]:
            proposed.append(parameters)
    if proposed:
        return proposed
    # It has settled on some. In a small space there may be others.
    study.sampler = optuna.samplers.RandomSampler(seed=seed + len(outcomes))
    for _ in range(_RANDOM_REDRAWS):
        if (parameters := draw_parameters(space, study.ask())) not in tried:
            return [parameters]
    return []


def propose_changes(
    space: Space, outcomes: Sequence[Evaluation], objectives: int, seed: int, of: Parameters
) -> list[dict[str, str]]:
    """Return parameters that were not tried before: those of one configuration, each time with
    another of its knobs as the sampler has it (and those that need that one). None of one that is
    outside the space.
    """
    if not space.takes(of):
        return []
    study = make_study(space, outcomes, objectives, seed + len(outcomes))
    sampler, (chosen, _) = study.sampler, _encode(space, of)
    tried = [{}, *(dict(outcome.parameters) for outcome in outcomes)]
    proposed: list[dict[str, str]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        for knob in space.knobs:
            others = {n: v for n, v in chosen.items() if n not in (knob.name, _name_switch(knob))}
            study.sampler = optuna.samplers.PartialFixedSampler(others, sampler)
            for _ in range(_CHANGES):
                if (parameters := draw_parameters(space, study.ask())) not in [*tried, *proposed]:
                    proposed.append(parameters)
    return proposed


def make_study(
    space: Space, outcomes: Sequence[Evaluation], objectives: int, seed: int
) -> optuna.Study:
    """Return a study in memory with these outcomes."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        # ``multivariate`` and ``group`` may change their interface; the version is pinned.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            multivariate=False, n_startup_trials=_STARTUP, seed=seed
        )
    study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    study.add_trials(
        [
            _make_trial(space, outcome, objectives)
            for outcome in outcomes
            if space.takes(outcome.parameters)
        ]
    )
    return study


def _make_trial(space: Space, outcome: Evaluation, objectives: int) -> optuna.trial.FrozenTrial:
    """Return a finished trial as it would be had the sampler proposed the outcome's parameters."""
    chosen, distributions = _encode(space, outcome.parameters)
    return optuna.trial.create_trial(
        params=chosen,
        distributions=distributions,
        values=outcome.objectives or [FAILED] * objectives,
    )


def _encode(
    space: Space, parameters: Parameters
) -> tuple[dict[str, Any], dict[str, optuna.distributions.BaseDistribution]]:
    """Return parameters as the sampler has them, and from which distributions they are."""
    chosen: dict[str, Any] = {}
    distributions: dict[str, optuna.distributions.BaseDistribution] = {}
    for knob in space.knobs:
        if not knob.is_active(parameters):
            continue
        value = parameters.get(knob.name)
        if knob.words:
            chosen[knob.name] = value or _LEFT_ALONE
            distributions[knob.name] = _list_words(knob)
            continue
        chosen[_name_switch(knob)], distributions[_name_switch(knob)] = value is not None, _SWITCH
        if value is not None:
            chosen[knob.name] = int(value).bit_length() - 1 if knob.powers else int(value)
            distributions[knob.name] = _limit_number(knob)
    return chosen, distributions


def draw_parameters(space: Space, trial: optuna.Trial) -> dict[str, str]:
    """Return the parameters that the sampler of a trial proposes."""
    parameters: dict[str, str] = {}
    for knob in space.knobs:
        if not knob.is_active(parameters):
            continue
        if knob.words:
            word = trial.suggest_categorical(knob.name, _list_words(knob).choices)
            if word != _LEFT_ALONE:
                parameters[knob.name] = str(word)
        elif trial.suggest_categorical(_name_switch(knob), _SWITCH.choices):
            numbers = _limit_number(knob)
            number = trial.suggest_int(knob.name, numbers.low, numbers.high, log=numbers.log)
            parameters[knob.name] = str(2**number if knob.powers else number)
    return parameters


def _name_switch(knob: Knob) -> str:
    return f"{knob.name}?"


def _list_words(knob: Knob) -> optuna.distributions.CategoricalDistribution:
    return optuna.distributions.CategoricalDistribution((_LEFT_ALONE, *knob.words))


def _limit_number(knob: Knob) -> optuna.distributions.IntDistribution:
    """Return the range of a knob's numbers, or of their logarithms to base 2 for powers."""
    if not knob.powers:
        return optuna.distributions.IntDistribution(knob.least, knob.most, log=knob.log)
    return optuna.distributions.IntDistribution(
        (knob.least - 1).bit_length(), knob.most.bit_length() - 1
    )
