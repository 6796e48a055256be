"""Estimate what configurations do, from few and noisy trials. Pure.

A reading of one short trial is its configuration's effect and a scatter that is often larger. So a
reading is not taken for itself: the effect of a configuration is taken as the sum of the effects of
its settings, each of which most likely does nothing, and near values of a setting do much the same;
a rest is the configuration's own. Trials of other configurations so say what a setting costs. It is
the usual regression on a Gaussian process (Rasmussen and Williams, Gaussian Processes for Machine
Learning, 2006, chapter 2), with the default where it is known: at no effect. How large effects are
beside the scatter is not known; the estimate is the mean over :data:`_LARGENESS`, weighted by how
well each explains the readings, the scatter integrated out.
"""

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

# Variance of a setting's effect, in variances of the scatter from trial to trial.
_LARGENESS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# What settings together do beyond the sum, as a share of one setting's variance.
_TOGETHER = 0.25
# Values of a setting are alike by exp(-octaves between them / this many).
_OCTAVES = 2.0
# Longer ones are no number that any malloc takes.
_DIGITS = 20
# The scatter that is expected before any trial, as ln, and how many trials' worth that counts.
_USUAL_SCATTER: dict[Measure, float] = {"memory": 0.02, "cost": 0.05}
_USUAL_WORTH = 4.0


@dataclass(frozen=True, kw_only=True)
class Effects:
    """What configurations do, as ln of the ratio to their default: the ``means`` of what is likely,
    and the ``covariance``, both in the order in which the configurations were given.
    """

    means: Floats
    covariance: Floats


def estimate_effects(default: Standing, standings: Sequence[Standing], measure: Measure) -> Effects:
    """Return the effects of configurations of one base, each with one good trial at least, on a
    measure; ``default``: that of the base.
    """
    readings = [[getattr(r, measure) for r in s.readings] for s in standings]
    usual = [getattr(r, measure) for r in default.readings]
    counts = np.array([len(r) for r in readings], dtype=float)
    # Ratios to the default's mean share its error.
    error = np.diag(1 / counts) + 1 / len(usual)
    within = sum(float(np.var(r)) * len(r) for r in [usual, *readings])
    worth = _USUAL_WORTH + counts.sum() + len(usual) - 1
    scatter_squares = within + _USUAL_WORTH * _USUAL_SCATTER[measure] ** 2
    return _average_effects(
        means=np.array([np.mean(r) for r in readings]),
        error=error,
        alike=compare_settings(standings),
        scatter_squares=scatter_squares,
        worth=worth,
    )


def _average_effects(
    *, means: Floats, error: Floats, alike: Floats, scatter_squares: float, worth: float
) -> Effects:
    """Return the effects, averaged over how large they may be. ``scatter_squares``: the sum of
    squares that is scatter alone, ``worth``: the degrees of freedom in all.

    In the coordinates in which ``error`` is the unit matrix and ``alike`` is diagonal, an effect is
    its reading times d = largeness × alike / (1 + largeness × alike), and d × scatter² is what
    stays unknown of it.
    """
    root = linalg.cholesky(error, lower=True)
    half = linalg.solve_triangular(root, alike, lower=True)
    eigenvalues, vectors = linalg.eigh(linalg.solve_triangular(root, half.T, lower=True))
    large = np.array(_LARGENESS)[:, None] * np.maximum(eigenvalues, 0.0)
    share = large / (1 + large)
    back = root @ vectors
    turned = vectors.T @ linalg.solve_triangular(root, means, lower=True)
    squares = scatter_squares + (turned**2 / (1 + large)).sum(axis=1)
    likelihood = -0.5 * (np.log1p(large).sum(axis=1) + worth * np.log(squares))
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    each = (share * turned) @ back.T
    mean = weights @ each
    unknown = (weights * squares / (worth - 2)) @ share
    between = each - mean
    covariance = (back * unknown) @ back.T + (between.T * weights) @ between
    return Effects(means=mean, covariance=covariance)


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
