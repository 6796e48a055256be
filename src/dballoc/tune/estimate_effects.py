"""Estimate what configurations do, from few and noisy trials. Pure.

A reading of one short trial is its configuration's effect and a scatter that is often larger. So a
reading is not taken for itself: the effect of a configuration is taken as the sum of the effects of
its settings, each of which most likely does little, and near values of a setting do much the same;
a rest is the configuration's own. Trials of other configurations so say what a setting costs, and
what a configuration does that was not tried yet. It is the usual regression on a Gaussian process
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2), with the default
where it is known: at no effect. How large effects are, and how large the scatter, is not known; the
estimate is the mean over :data:`_EFFECTS` and :data:`_SCATTER`, weighted by how well each pair
explains the readings.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import linalg

from dballoc.analysis.tune.search_history import Standing

Measure = Literal["memory", "cost"]
Floats = npt.NDArray[np.float64]

# Standard deviations, as ln: of one setting's effect, and of the scatter from trial to trial. There
# may be no memory to gain; that a setting costs no CPU at all, no search is long enough to show.
_EFFECTS: dict[Measure, tuple[float, ...]] = {
    "memory": (0.0, 0.003, 0.01, 0.03, 0.1, 0.3),
    "cost": (0.01, 0.02, 0.04, 0.08, 0.16),
}
_SCATTER = (0.003, 0.006, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
# What settings together do beyond the sum, as a share of one setting's variance.
_TOGETHER = 0.25
# Values of a setting are alike by exp(-octaves between them / this many).
_OCTAVES = 2.0
# Longer ones are no number that any malloc takes.
_DIGITS = 20


@dataclass(frozen=True, kw_only=True)
class Effects:
    """What configurations do, as ln of the ratio to their default: the ``means`` of what is likely,
    and the ``covariance``, both in the order in which the configurations were given.
    """

    means: Floats
    covariance: Floats


def estimate_effects(default: Standing, standings: Sequence[Standing], measure: Measure) -> Effects:
    """Return the effects of configurations of one base on a measure, also of those without a good
    trial; ``default``: that of the base, with a trial at least.
    """
    alike = compare_settings(standings)
    tried = [i for i, s in enumerate(standings) if s.trials]
    readings = [[getattr(r, measure) for r in standings[i].readings] for i in tried]
    usual = [getattr(r, measure) for r in default.readings]
    within = sum(float(np.var(r)) * len(r) for r in [usual, *readings])
    repeats = sum(len(r) - 1 for r in [usual, *readings])
    # Ratios to the default's mean share its error.
    error = np.diag([1 / len(r) for r in readings]) + 1 / len(usual)
    root = linalg.cholesky(error, lower=True)
    half = linalg.solve_triangular(root, alike[np.ix_(tried, tried)], lower=True)
    # In these coordinates both the error and what is expected of effects are diagonal.
    eigenvalues, vectors = linalg.eigh(linalg.solve_triangular(root, half.T, lower=True))
    turned = vectors.T @ linalg.solve_triangular(
        root, np.array([np.mean(r) for r in readings]), lower=True
    )
    back = linalg.solve_triangular(root, alike[tried], lower=True).T @ vectors
    pairs = np.array(list(itertools.product(_EFFECTS[measure], _SCATTER))) ** 2
    effect, scatter = pairs[:, :1], pairs[:, 1:]
    variances = scatter + effect * np.maximum(eigenvalues, 0.0)
    likelihood = -0.5 * (np.log(variances) + turned**2 / variances).sum(axis=1)
    likelihood -= 0.5 * (repeats * np.log(scatter) + within / scatter)[:, 0]
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    each = (effect / variances * turned) @ back.T
    mean = weights @ each
    between = each - mean
    covariance = (weights @ effect) * alike - (back * (weights @ (effect**2 / variances))) @ back.T
    return Effects(means=mean, covariance=covariance + (between.T * weights) @ between)


def compare_settings(standings: Sequence[Standing]) -> Floats:
    """Return how alike the effects of any two configurations are expected to be: the number of
    settings that both have, each times how near its values are, and of one with itself more.
    """
    alike = _TOGETHER * np.eye(len(standings))
    for name in dict.fromkeys(n for s in standings for n in s.parameters):
        having = [i for i, s in enumerate(standings) if name in s.parameters]
        values = [standings[i].parameters[name] for i in having]
        alike[np.ix_(having, having)] += _compare_values(values)
    return alike


def _compare_values(values: Sequence[str]) -> Floats:
    if not all(v.isascii() and v.isdigit() and len(v) <= _DIGITS for v in values):
        words = np.array(values)
        return (words[:, None] == words).astype(float)
    octaves = np.array([math.log2(max(0.5, float(v))) for v in values])
    return np.exp(-np.abs(octaves[:, None] - octaves) / _OCTAVES)
