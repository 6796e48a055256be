"""Quantiles of the distributions that intervals rest on. Pure.

``scipy.special`` is imported by the first call: it takes longer to load than all else that a verb
needs before its first line. (``scipy.stats`` has the same functions and takes two seconds.)
"""


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


def compute_noncentrality(freedom: float, probability: float, value: float) -> float:
    """Return the noncentrality with which Student's t stays below ``value`` with that
    probability.
    """
    from scipy.special import nctdtrinc

    return float(nctdtrinc(freedom, probability, value))
