"""Moderate the variances of a metric's comparisons: each borrows from the mean of all. Pure.

With six blocks a comparison's own variance has five degrees of freedom, and Student's t pays for
that with a third of the interval's width. The comparisons of one metric scatter for the same
reasons (the machine, the load, the baseline that they share), so that their mean says what a usual
variance is. The shape of the estimate is that of Smyth, Linear models and empirical Bayes methods
for assessing differential expression in microarray experiments (Statistical Applications in
Genetics and Molecular Biology 3, 2004): a weighted mean of a common variance, with f degrees of
freedom, and the comparison's own, with n − 1.

Three things differ from Smyth's, all because a campaign has ten variances where he has thousands,
and one variant may scatter several times as much as the others:

- f is not estimated but fixed, 3 at most, and fewer the less a comparison may err
  (:data:`COMMON_FREEDOM`): what a wild variant borrows tells most far out in the tail. Estimated,
  simulated campaigns with one wild variant had 18 % of false verdicts at a level of 5 %.
- A comparison whose variance is more than 2.5 times the mean of the others' keeps its own variance
  and degrees of freedom. Without that guard a wild variant errs 3 to 5 times as often as its
  printed level says.
- No variance is taken for smaller than the comparison's own. Where it would be, the guard alone
  let a variant of 3 to 4 times the scatter err almost 3 times as often as its level says.

docs/evidence.md has the simulated errors, by benchmarks/simulated_campaigns.py.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

# The most degrees of freedom that the common variance counts for, by the least error of a
# comparison, over all its looks, from which that holds; none below the last.
COMMON_FREEDOM = ((0.004, 3), (0.002, 2), (0.001, 1))

# A variance above so many times the mean of the others' is not of their kind.
GUARD = 2.5


@dataclass(frozen=True)
class Variance:
    """A variance of logarithms from block to block, with its degrees of freedom."""

    value: float
    freedom: int


Name = TypeVar("Name", bound=Hashable)


def count_common_freedom(variances: int, error: float) -> int:
    """Return the degrees of freedom that the mean of so many variances counts for in a comparison
    that may err so often, over all its looks.
    """
    most = next((freedom for least, freedom in COMMON_FREEDOM if error >= least), 0)
    return max(0, min(most, variances - 1))


def moderate_variances(variances: Mapping[Name, Variance], error: float) -> dict[Name, Variance]:
    """Return every comparison's moderated variance: (f·s̄² + (n − 1)·s²) ÷ (f + n − 1), or s² where
    that is larger, with f + n − 1 degrees of freedom; its own where it is alone, or wild.

    ``variances``: one metric's, on one scale: those of the variants' logarithms to the baseline,
    and of the A/A pair. ``error``: what one comparison of the metric may err, over all its looks.
    """
    total = sum(v.value for v in variances.values())
    common = count_common_freedom(len(variances), error)
    if not common:
        return dict(variances)
    mean = total / len(variances)
    moderated = {}
    for name, variance in variances.items():
        others = (total - variance.value) / (len(variances) - 1)
        if variance.value > GUARD * others:
            moderated[name] = variance
        else:
            freedom = common + variance.freedom
            mixed = (common * mean + variance.freedom * variance.value) / freedom
            moderated[name] = Variance(max(mixed, variance.value), freedom)
    return moderated
