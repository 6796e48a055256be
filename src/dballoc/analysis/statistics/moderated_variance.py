"""Moderate the variances of a metric's comparisons: each borrows from the mean of all. Pure.

With six blocks a comparison's own variance has five degrees of freedom, and Student's t pays for
that with a third of the interval's width. The comparisons of one metric scatter for the same
reasons (the machine, the load, the baseline that they share), so that their mean says what a usual
variance is. The shape of the estimate is that of Smyth, Linear models and empirical Bayes methods
for assessing differential expression in microarray experiments (Statistical Applications in
Genetics and Molecular Biology 3, 2004): a weighted mean of a common variance, with f degrees of
freedom, and the comparison's own, with n − 1.

Two things differ from Smyth's, both because a campaign has ten variances where he has thousands:

- f is not estimated but fixed, min(3, k − 1) for k variances: estimated, simulated campaigns with
  one wild variant had 18 % of false verdicts at a level of 5 %.
- A comparison whose variance is more than 2.5 times the mean of the others' keeps its own variance
  and degrees of freedom. Without that guard a wild variant errs 3 to 5 times as often as its
  printed level says. docs/method.md has the simulated errors.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

# The most degrees of freedom that the common variance counts for.
MOST_COMMON_FREEDOM = 3

# A variance above so many times the mean of the others' is not of their kind.
GUARD = 2.5


@dataclass(frozen=True)
class Variance:
    """A variance of logarithms from block to block, with its degrees of freedom."""

    value: float
    freedom: int


Name = TypeVar("Name", bound=Hashable)


def count_common_freedom(variances: int) -> int:
    """Return the degrees of freedom that the mean of so many variances counts for."""
    return max(0, min(MOST_COMMON_FREEDOM, variances - 1))


def moderate_variances(variances: Mapping[Name, Variance]) -> dict[Name, Variance]:
    """Return every comparison's moderated variance: (f·s̄² + (n − 1)·s²) ÷ (f + n − 1), with
    f + n − 1 degrees of freedom; its own where it is alone, or wild.

    ``variances``: one metric's, on one scale: those of the variants' logarithms to the baseline,
    and of the A/A pair.
    """
    total = sum(variance.value for variance in variances.values())
    common = count_common_freedom(len(variances))
    if not common:
        return dict(variances)
    mean = total / len(variances)
    moderated = {}
    for name, own in variances.items():
        others = (total - own.value) / (len(variances) - 1)
        if own.value > GUARD * others:
            moderated[name] = own
        else:
            freedom = common + own.freedom
            value = (common * mean + own.freedom * own.value) / freedom
            moderated[name] = Variance(value, freedom)
    return moderated
