"""Quantiles of the distributions that intervals rest on. Pure.

``scipy.special`` is imported by the first call: it takes longer to load than all else that a verb
needs before its first line. (``scipy.stats`` has the same functions and takes two seconds.)
:func:`find_t_quantile` and :func:`find_chi_square_quantile` need no scipy, for what runs where it
is not installed: a look at a server, and measuring.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

# Degrees of freedom above which Student's t is expanded from the normal distribution.
_FEW_DEGREES = 1000


def compute_t_quantile(freedom: float, probability: float) -> float:
    """Return the value that Student's t with that many degrees of freedom stays below with that
    probability.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def compute_chi_square_quantile(freedom: float, probability_above: float) -> float:
    """Return the value that chi-square with that many degrees of freedom exceeds with that
    probability.
    """
    from scipy.special import chdtri

    return float(chdtri(freedom, probability_above))


def compute_binomial_tail(successes: int, trials: int, probability: float) -> float:
    """Return the probability of that many successes or more in independent trials."""
    from scipy.special import bdtrc

    return float(bdtrc(successes - 1, trials, probability)) if successes else 1.0


def compute_noncentrality(freedom: float, probability: float, value: float) -> float:
    """Return the noncentrality with which Student's t stays below ``value`` with that
    probability.
    """
    from scipy.special import nctdtrinc

    return float(nctdtrinc(freedom, probability, value))


@lru_cache(maxsize=10_000)
def find_t_quantile(freedom: int, probability: float) -> float:
    """Return what :func:`compute_t_quantile` returns, for whole degrees of freedom and a
    probability of 0.5 or more: in plain Python, where scipy may be missing.
    """
    if freedom > _FEW_DEGREES:
        return _expand_t_quantile(freedom, probability)
    # Student's t is sqrt(freedom) * tan(angle), and its distribution rises with the angle.
    angle = _bisect(
        lambda angle: (1 + _compute_t_within(freedom, angle)) / 2 < probability, math.pi / 2
    )
    return math.sqrt(freedom) * math.tan(angle)


def _expand_t_quantile(freedom: int, probability: float) -> float:
    """Return a quantile of Student's t with many degrees of freedom from that of the normal
    distribution: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5. What it leaves
    out is of the order of 1 ÷ freedom⁵.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _compute_t_within(freedom: int, angle: float) -> float:
    """Return the probability that Student's t is within ±sqrt(freedom) * tan(angle): Abramowitz and
    Stegun, Handbook of Mathematical Functions, 26.7.3 (odd degrees of freedom) and 26.7.4 (even).
    """
    cosine, is_odd = math.cos(angle), freedom % 2
    term, total = (cosine, 0.0) if is_odd else (1.0, 0.0)
    for power in range(is_odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    if not is_odd:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + math.sin(angle) * total)


@lru_cache(maxsize=10_000)
def find_chi_square_quantile(freedom: int, probability_above: float) -> float:
    """Return what :func:`compute_chi_square_quantile` returns, for whole degrees of freedom: in
    plain Python, where scipy may be missing.
    """
    most = 10.0 * freedom + 1000.0
    return _bisect(
        lambda value: _compute_chi_square_above(freedom, value) > probability_above, most
    )


def _compute_chi_square_above(freedom: int, value: float) -> float:
    """Return the probability that chi-square exceeds a value: Abramowitz and Stegun, Handbook of
    Mathematical Functions, 26.4.4 (odd degrees of freedom) and 26.4.5 (even).
    """
    is_odd = freedom % 2
    # Of many degrees of freedom the first terms are less than any float.
    log_term = (math.log(2 * value / math.pi) / 2 if is_odd else 0.0) - value / 2
    total = math.erfc(math.sqrt(value / 2)) if is_odd else 0.0
    for power in range(2 + is_odd, freedom + 1, 2):
        total += math.exp(log_term)
        log_term += math.log(value / power)
    return total


def _bisect(is_below: Callable[[float], bool], high: float) -> float:
    """Return the number between 0 and ``high`` up to which ``is_below`` holds."""
    low = 0.0
    while low < (middle := (low + high) / 2) < high:
        if is_below(middle):
            low = middle
        else:
            high = middle
    return low
