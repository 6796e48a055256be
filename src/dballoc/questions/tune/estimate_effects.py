"""Estimate what configurations do, from few and noisy trials. Pure.

A reading of one short trial is its configuration's effect and a scatter that is often larger. So a
reading is not taken for itself: the effect of a configuration is taken as the sum of the effects of
its settings, each of which most likely does little, and near values of a setting do much the same;
a rest is the configuration's own. Trials of other configurations so say what a setting costs, and
what a configuration does that was not tried yet. It is the usual regression on a Gaussian process
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2), with the default
where it is known: at no effect. How large effects are, how large the scatter of trials, and how
much less duets scatter, is not known; the estimate is the mean over :data:`_EFFECTS`,
:data:`_SCATTER` and :data:`_DUET_SCATTER`, weighted by how well each combination explains the
readings.

Estimate what each configuration of a search does in memory and in cost, and which of them are on
the front. Pure.

A front of readings has its places by luck: of many that do the same, the ones that were read low.
So the front is that of the estimate which the search itself goes by, and how sure each place on it
is follows from draws of what may be true of all configurations together.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import linalg

from dballoc.questions.tune.search_history import ConfigurationResult, convert_to_ratio, find_front

Measure = Literal["memory", "cost"]
Floats = npt.NDArray[np.float64]

# Standard deviations, as ln: of one setting's effect, and of the scatter from trial to trial. There
# may be no memory to gain; that a setting costs no CPU at all, no search is long enough to show.
_EFFECTS: dict[Measure, tuple[float, ...]] = {
    "memory": (0.0, 0.003, 0.01, 0.03, 0.1, 0.3),
    "cost": (0.01, 0.02, 0.04, 0.08, 0.16),
}
_SCATTER = (0.003, 0.006, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
# That of a duet, whose two servers run at once, as a share of it.
_DUET_SCATTER = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
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


@dataclass(frozen=True, kw_only=True)
class _Observed:
    """What was read of configurations: ``places`` among all of them, ``means`` of so many
    ``counts`` each; the last ``duets`` of them are means of duets. ``usual``: readings that the
    default has. ``within``: sums of squares within configurations, and how many ``repeats`` these
    are of: first of trials alone, then of duets.
    """

    places: list[int]
    means: Floats
    counts: Floats
    duets: int
    usual: int
    within: tuple[float, ...]
    repeats: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class _Estimates:
    """What each combination of an effect's and a scatter's size says: its log ``likelihood``, the
    ``means`` of all configurations (a row a combination), and by how much it ``narrows`` what is
    known before the readings (eigenvalues, a row a combination), along ``directions``.
    """

    likelihood: Floats
    means: Floats
    narrows: Floats
    directions: Floats


def estimate_effects(
    default: ConfigurationResult, standings: Sequence[ConfigurationResult], measure: Measure
) -> Effects:
    """Return the effects of configurations of one base on a measure, also of those without a good
    trial; ``default``: that of the base, with a trial at least.
    """
    return _weigh(compare_settings(standings), _collect(default, standings, measure), measure)


def estimate_settings(
    default: ConfigurationResult,
    standings: Sequence[ConfigurationResult],
    settings: Sequence[tuple[str, str]],
    measure: Measure,
) -> Effects:
    """Return the effects of single settings, each a name and a value, as all ``standings`` tell
    them, at least one with a good trial: that of the configuration that has the setting alone where
    there is one; else without what settings do only together.
    """
    alone = [
        ConfigurationResult(base=default.base, variant="", parameters={name: value})
        for name, value in settings
    ]
    alike = compare_settings([*standings, *alone])
    first = len(standings)
    alike[first:, first:] -= _TOGETHER * np.eye(len(alone))
    effects = _weigh(alike, _collect(default, standings, measure), measure)
    tried = {tuple(s.parameters.items()): place for place, s in enumerate(standings)}
    places = [tried.get((setting,), first + i) for i, setting in enumerate(settings)]
    return Effects(
        means=effects.means[places], covariance=effects.covariance[np.ix_(places, places)]
    )


def draw_effects(
    effects: Effects, places: Sequence[int], draws: int, chance: np.random.Generator
) -> Floats:
    """Return draws of what may be true of the configurations at these places, a row each."""
    return chance.multivariate_normal(
        effects.means[places],
        effects.covariance[np.ix_(places, places)],
        draws,
        check_valid="ignore",  # rounding may leave it a little less than positive
        method="eigh",
    )


def _weigh(alike: Floats, observed: _Observed, measure: Measure) -> Effects:
    """Return the mean over all sizes of effects and scatters, by how well each explains what was
    observed.
    """
    pairs = np.array(list(itertools.product(_EFFECTS[measure], _SCATTER))) ** 2
    shares = _DUET_SCATTER if observed.duets else (1.0,)
    estimates = [_estimate(alike, observed, pairs, share**2) for share in shares]
    likelihood = np.stack([e.likelihood for e in estimates])
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    mean = sum((w @ e.means for w, e in zip(weights, estimates, strict=True)), np.zeros(len(alike)))
    covariance = (weights.sum(axis=0) @ pairs[:, 0]) * alike
    for w, e in zip(weights, estimates, strict=True):
        between = e.means - mean
        covariance -= (e.directions * (w @ e.narrows)) @ e.directions.T
        covariance += (between.T * w) @ between
    return Effects(means=mean, covariance=covariance)


def _collect(
    default: ConfigurationResult, standings: Sequence[ConfigurationResult], measure: Measure
) -> _Observed:
    """Return the readings of a measure."""
    usual = [getattr(r, measure) for r in default.readings]
    alone = {
        i: [getattr(r, measure) for r in s.readings] for i, s in enumerate(standings) if s.trials
    }
    has_duets = measure == "cost"
    duets = {i: s.duets for i, s in enumerate(standings) if s.duets} if has_duets else {}
    readings = [*alone.values(), *duets.values()]
    kinds = [usual, *alone.values()], list(duets.values())
    return _Observed(
        places=[*alone, *duets],
        means=np.array([np.mean(r) for r in readings]),
        counts=np.array([len(r) for r in readings], dtype=float),
        duets=len(duets),
        usual=len(usual),
        within=tuple(sum(float(np.var(r)) * len(r) for r in kind) for kind in kinds),
        repeats=tuple(sum(len(r) - 1 for r in kind) for kind in kinds),
    )


def _estimate(alike: Floats, observed: _Observed, pairs: Floats, share: float) -> _Estimates:
    """Estimate under each of ``pairs``, the variances of effects and of trials alone; that of duets
    is their ``share`` of the latter.
    """
    # Ratios to the mean of the default's trials share its error. A duet has a default of its own.
    alone = len(observed.counts) - observed.duets
    variances = np.where(np.arange(len(observed.counts)) < alone, 1.0, share)
    error = np.diag(variances / observed.counts)
    error[:alone, :alone] += 1 / observed.usual
    root = linalg.cholesky(error, lower=True)
    of_observed = alike[observed.places]
    half = linalg.solve_triangular(root, of_observed[:, observed.places], lower=True)
    # In these coordinates both the error and what is expected of effects are diagonal.
    eigenvalues, vectors = linalg.eigh(linalg.solve_triangular(root, half.T, lower=True))
    turned = vectors.T @ linalg.solve_triangular(root, observed.means, lower=True)
    directions = linalg.solve_triangular(root, of_observed, lower=True).T @ vectors
    effect, scatter = pairs[:, :1], pairs[:, 1:]
    spread = scatter + effect * np.maximum(eigenvalues, 0.0)
    likelihood = -0.5 * (np.log(spread) + turned**2 / spread).sum(axis=1)
    likelihood -= np.log(np.diag(root)).sum()
    for of_kind, within, repeats in zip(
        (scatter, share * scatter), observed.within, observed.repeats, strict=True
    ):
        likelihood -= 0.5 * (repeats * np.log(of_kind) + within / of_kind)[:, 0]
    return _Estimates(
        likelihood=likelihood,
        means=(effect / spread * turned) @ directions.T,
        narrows=effect**2 / spread,
        directions=directions,
    )


def compare_settings(standings: Sequence[ConfigurationResult]) -> Floats:
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


# Standard deviations on either side, of an interval at 95 %.
_DEVIATIONS = 1.96
# Of more configurations of a base only those that read lowest in one of both are estimated.
_MOST = 300
_DRAWS = 1000


@dataclass(frozen=True, kw_only=True)
class Likely:
    """What is likely of an effect, as ln of a ratio to the default: its mean, and the ends of its
    interval at 95 %.
    """

    mean: float
    low: float
    high: float

    @property
    def is_measurable(self) -> bool:
        """Whether the interval is on one side of no effect."""
        return self.low > 0 or self.high < 0

    @property
    def ratios(self) -> tuple[float, float, float]:
        """The mean and the ends as ratios."""
        mean, low, high = map(convert_to_ratio, (self.mean, self.low, self.high))
        return mean, low, high


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """What is likely of a configuration. ``on_front``: whether it is on the front of what is likely
    of all configurations of its base; ``front_chance``: in which share of what may be true it is.
    """

    standing: ConfigurationResult
    memory: Likely
    cost: Likely
    on_front: bool
    front_chance: float


_NOTHING = Likely(mean=0.0, low=0.0, high=0.0)


def estimate_front(standings: Sequence[ConfigurationResult]) -> list[Estimated]:
    """Return what is likely of every configuration that ran, of each base whose default did; the
    default first, which does nothing to itself.
    """
    estimated = []
    for default in standings:
        if not default.parameters and default.trials:
            ran = [s for s in standings if s.base == default.base and s.parameters and s.trials]
            ran.sort(key=lambda s: min(s.memory or 0.0, s.cost or 0.0))
            estimated += _estimate_base(default, ran[:_MOST])
    return estimated


def _estimate_base(
    default: ConfigurationResult, standings: Sequence[ConfigurationResult]
) -> list[Estimated]:
    if not standings:
        return [_make_default(default, on_front=True, chance=1.0)]
    memory = estimate_effects(default, standings, "memory")
    cost = estimate_effects(default, standings, "cost")
    # The default is in front of them all, in the means as in the draws.
    front = find_front([(0.0, 0.0), *zip(memory.means, cost.means, strict=True)])
    chances = _share_on_front(memory, cost)
    return [
        _make_default(default, on_front=0 in front, chance=float(chances[0])),
        *(
            Estimated(
                standing=standing,
                memory=describe_effect(memory, i),
                cost=describe_effect(cost, i),
                on_front=i + 1 in front,
                front_chance=float(chances[i + 1]),
            )
            for i, standing in enumerate(standings)
        ),
    ]


def _make_default(default: ConfigurationResult, *, on_front: bool, chance: float) -> Estimated:
    return Estimated(
        standing=default, memory=_NOTHING, cost=_NOTHING, on_front=on_front, front_chance=chance
    )


def describe_effect(effects: Effects, place: int) -> Likely:
    """Return what is likely of the effect at a place."""
    mean = float(effects.means[place])
    reach = _DEVIATIONS * math.sqrt(max(0.0, float(effects.covariance[place, place])))
    return Likely(mean=mean, low=mean - reach, high=mean + reach)


def _share_on_front(memory: Effects, cost: Effects) -> Floats:
    """Return in which share of draws the default and each configuration are on the front."""
    chance = np.random.default_rng(0)
    places = range(len(memory.means))
    values, costs = (
        np.pad(draw_effects(effects, places, _DRAWS, chance), ((0, 0), (1, 0)))
        for effects in (memory, cost)
    )
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(costs, order, axis=1)
    # Nothing that needs less memory may cost as little.
    least_before = np.minimum.accumulate(ordered, axis=1)[:, :-1]
    on_front = np.ones_like(ordered)
    on_front[:, 1:] = ordered[:, 1:] < least_before
    shares = np.empty_like(on_front)
    np.put_along_axis(shares, order, on_front, axis=1)
    return np.asarray(shares.mean(axis=0))
