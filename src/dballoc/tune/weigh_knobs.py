"""Weigh what each knob of a search was worth: by Optuna's importances, and by its trials alone.

The importances are those of PED-ANOVA (Watanabe et al., PED-ANOVA: efficiently quantifying
hyperparameter importance in arbitrary subspaces, IJCAI 2023). They say which knob the good half of
the trials owes to; a knob's numbers are put into thirds of its range for that.
"""

import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna

from dballoc.analysis.tune.search_history import Stage, Tried, compare_with_default
from dballoc.tune.search_space import Knob, Space

# Fewer trials than this say nothing of importance.
_FEWEST = 10
# A knob is measurable if a trial of it alone differs by so many times the scatter of the default's
# trials, or by this much as ln where that scatter is unknown.
_TIMES, _USUAL_SCATTER = 3.0, 0.02


def weigh_knobs(
    spaces: Mapping[str, Space], tried: Sequence[Tried], stage: Stage
) -> list[dict[str, Any]]:
    """Return a row for each knob of each base: its importance for memory and for cost (shares; None
    with too few trials), its largest effect alone on either (ratios), and whether that is
    measurable; None if it was not tried alone.
    """
    rows = []
    for base, space in spaces.items():
        trials = [t for t in tried if t.base == base and t.stage == stage]
        ratios = {t.number: compare_with_default(t, trials) for t in trials}
        good = [(t, r) for t in trials if (r := ratios[t.number]) is not None]
        shares = [_compute_importances(space, good, index) for index in (0, 1)]
        for knob in space.knobs:
            rows.append(
                {
                    "base": base,
                    "knob": knob.name,
                    "memory_share": shares[0].get(knob.name),
                    "cost_share": shares[1].get(knob.name),
                    **_measure_alone(knob, good),
                }
            )
    return rows


def _measure_alone(knob: Knob, good: Sequence[tuple[Tried, tuple[float, float]]]) -> dict[str, Any]:
    names = {knob.name, *knob.needs}
    alone = [r for t, r in good if set(t.parameters) == names]
    if not alone:
        return {"memory": None, "cost": None, "measurable": None}
    defaults = [r for t, r in good if not t.parameters]
    effects, measurable = [], False
    for index in (0, 1):
        effect = max((r[index] for r in alone), key=abs)
        usual = [r[index] for r in defaults]
        scatter = statistics.stdev(usual) if len(usual) > 1 else 0.0
        measurable |= abs(effect) > _TIMES * max(scatter, _USUAL_SCATTER)
        effects.append(math.exp(effect))
    return {"memory": effects[0], "cost": effects[1], "measurable": measurable}


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
