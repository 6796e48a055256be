"""Weigh what each knob of a search was worth: by Optuna's importances, and by what it is likely to
do by itself.

The importances are those of PED-ANOVA (Watanabe et al., PED-ANOVA: efficiently quantifying
hyperparameter importance in arbitrary subspaces, IJCAI 2023). They say which knob the good half of
the trials owes to; a knob's numbers are put into thirds of its range for that. What a knob does by
itself is estimated from all trials that set it, beside whatever else, as the search itself does
(``estimate_settings``); so no trial of it alone is needed. Replays and servers each say their own.
"""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import optuna

from dballoc.questions.tune.estimate_effects import (
    Likely,
    Measure,
    describe_effect,
    estimate_settings,
)
from dballoc.questions.tune.search_history import (
    ConfigurationResult,
    Stage,
    Tried,
    compare_with_default,
    summarize_standings,
)
from dballoc.search.search_space import Knob, Space
from dballoc.store.facts import KnobWorth

# Fewer trials than this say nothing of importance.
_FEWEST = 10
# The estimate is from so many configurations, the first ones, and of so many values of each knob,
# those that were tried most.
_MOST, _MOST_VALUES = 300, 20
_STAGES: tuple[Stage, ...] = ("server", "replay")
_MEASURES: tuple[Measure, ...] = ("memory", "cost")


def weigh_knobs(spaces: Mapping[str, Space], tried: Sequence[Tried]) -> list[KnobWorth]:
    """Return what each knob of each base was worth, of servers, and of replays where there were
    any.
    """
    knobs = []
    for base, space in spaces.items():
        for stage in _STAGES:
            trials = [t for t in tried if t.base == base and t.stage == stage]
            if trials or stage == "server":
                part = space if stage == "server" else space.of_malloc
                knobs += _weigh(base, stage, part, trials)
    return knobs


def _weigh(base: str, stage: Stage, space: Space, trials: Sequence[Tried]) -> list[KnobWorth]:
    good = [(t, r) for t in trials if (r := compare_with_default(t, trials)) is not None]
    shares = [_compute_importances(space, good, index) for index in (0, 1)]
    standings = summarize_standings(trials, stage)
    effects = _estimate_values(space, standings)
    return [
        KnobWorth(
            base=base,
            knob=knob.name,
            stage=stage,
            configurations=sum(s.trials > 0 and knob.name in s.parameters for s in standings),
            failed=sum(
                s.faults > 0 and not s.trials and knob.name in s.parameters for s in standings
            ),
            memory_share=shares[0].get(knob.name),
            cost_share=shares[1].get(knob.name),
            **_describe_knob(effects.get(knob.name, {})),
        )
        for knob in space.knobs
    ]


# What is likely of each value of a knob, on memory and on cost.
_OfValues = Mapping[str, Mapping[Measure, Likely]]


def _estimate_values(
    space: Space, standings: Sequence[ConfigurationResult]
) -> Mapping[str, _OfValues]:
    """Return, by knob, what is likely of the values that were tried; none without a default."""
    default = next((s for s in standings if not s.parameters and s.trials), None)
    ran = [s for s in standings if s.parameters and s.trials][:_MOST]
    tried = {
        knob.name: Counter(s.parameters[knob.name] for s in ran if knob.name in s.parameters)
        for knob in space.knobs
    }
    settings = [(n, v) for n, values in tried.items() for v, _ in values.most_common(_MOST_VALUES)]
    if default is None or not settings:
        return {}
    effects = {m: estimate_settings(default, ran, settings, m) for m in _MEASURES}
    by_knob: dict[str, dict[str, Mapping[Measure, Likely]]] = {}
    for place, (name, value) in enumerate(settings):
        likely = {m: describe_effect(effects[m], place) for m in _MEASURES}
        by_knob.setdefault(name, {})[value] = likely
    return by_knob


def _describe_knob(of_values: _OfValues) -> dict[str, Any]:
    """Return the fields of :class:`KnobWorth` on its effects; none without a value."""
    effects: dict[str, Any] = {}
    if of_values:
        effects["measurable"] = any(
            likely.is_measurable for each in of_values.values() for likely in each.values()
        )
        for measure in _MEASURES:
            value = max(of_values, key=lambda v: abs(of_values[v][measure].mean))
            ends = (measure, f"{measure}_low", f"{measure}_high")
            effects |= zip(ends, of_values[value][measure].ratios, strict=True)
            effects[f"{measure}_value"] = value
    return effects


def _compute_importances(
    space: Space, good: Sequence[tuple[Tried, tuple[float, float]]], index: int
) -> dict[str, float]:
    if len(good) < _FEWEST:
        return {}
    study = optuna.create_study()
    for trial, values in good:
        levels = {k.name: _find_level(k, trial.parameters.get(k.name)) for k in space.knobs}
        study.add_trial(
            optuna.trial.create_trial(
                params=levels,
                distributions={
                    k.name: optuna.distributions.CategoricalDistribution(_list_levels(k))
                    for k in space.knobs
                },
                value=values[index],
            )
        )
    with warnings.catch_warnings():
        # It warns where trials are too alike to tell knobs apart; then the shares are alike too.
        warnings.simplefilter("ignore")
        shares = optuna.importance.get_param_importances(study)
    return {name: share for name, share in shares.items() if math.isfinite(share)}


_LEFT_ALONE = "left alone"
_THIRDS = ("low", "middle", "high")


def _list_levels(knob: Knob) -> tuple[str, ...]:
    return (_LEFT_ALONE, *(knob.words or _THIRDS))


def _find_level(knob: Knob, value: str | None) -> str:
    """Return the word of a choice, or the third of its range that a number lies in."""
    if value is None:
        return _LEFT_ALONE
    if knob.words:
        return value
    place = [float(number) for number in (knob.least, int(value), knob.most)]
    if knob.log:
        place = [math.log(max(1.0, number)) for number in place]
    share = (place[1] - place[0]) / ((place[2] - place[0]) or 1.0)
    return _THIRDS[min(2, max(0, int(3 * share)))]
