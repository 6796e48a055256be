"""Average an effect over hosts, each a draw from all such hosts: a random-effects mean. Pure.

Hartung and Knapp's interval (Statistics in Medicine 20, 2001: 3875) takes Student's t on hosts − 1
and the scatter that the hosts show. Here every host has the same weight, with which it is the t
interval of the hosts' own means. Weights of 1 ÷ estimated variance look better and are worse: a
campaign has few blocks, so the host whose blocks agree by luck gets most of the weight, and at the
levels of a family such verdicts err up to fourteen times as often as they may
(``benchmarks/combined_hosts.py``; docs/method.md has the table).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.analysis.statistics.detectable_difference import compute_detectable_by_error
from dballoc.analysis.statistics.ratio_interval import compute_variance, exp_clamped
from dballoc.distributions import compute_t_quantile

# Under so many hosts there is no verdict for all: three would leave t two degrees of freedom, on
# which an interval at a family's level reaches anywhere.
FEWEST_HOSTS = 4


@dataclass(frozen=True, kw_only=True)
class MeanOverHosts:
    """variant ÷ baseline over hosts. ``between``: the standard deviation of ln ratio from host to
    host, blocks' scatter taken out; ``next_low`` and ``next_high``: where one further host of these
    kinds would lie, at the same ``confidence``.
    """

    estimate: float
    low: float
    high: float
    hosts: int
    confidence: float
    error: float
    between: float
    next_low: float
    next_high: float

    @property
    def detectable(self) -> float:
        """The smallest relative rise that as many hosts would show with 80 % power."""
        return compute_detectable_by_error(self.error, self.hosts - 1, self.confidence)


def compute_mean_over_hosts(
    logs_by_host: Sequence[Sequence[float]], confidence: float
) -> MeanOverHosts:
    """Compute the mean of the hosts' mean ln ratios with its interval, from one ln ratio a block of
    each host.

    The scatter between hosts is that of their means less what their blocks' scatter puts into them
    (Hedges and Olkin's estimate, 0 where that is more). A further host lies within
    t √(between² + error²) of the mean (Higgins, Thompson and Spiegelhalter, Journal of the Royal
    Statistical Society A 172, 2009: 137; here with hosts − 1 degrees of freedom).

    ValueError below two hosts, or for a host without a block.
    """
    if len(logs_by_host) < 2 or not all(logs_by_host):
        raise ValueError("a mean over hosts takes two hosts with a block each")
    means = [math.fsum(logs) / len(logs) for logs in logs_by_host]
    hosts = len(means)
    mean = math.fsum(means) / hosts
    variance = compute_variance(means).value
    # A host with one block shows no scatter; it is taken to have that of the others.
    within = [compute_variance(logs).value / len(logs) for logs in logs_by_host if len(logs) > 1]
    between = max(0.0, variance - (math.fsum(within) / len(within) if within else 0.0))
    error = math.sqrt(variance / hosts)
    quantile = compute_t_quantile(hosts - 1, (1 + confidence) / 2)
    reach = quantile * math.sqrt(between + error**2)
    return MeanOverHosts(
        estimate=exp_clamped(mean),
        low=exp_clamped(mean - quantile * error),
        high=exp_clamped(mean + quantile * error),
        hosts=hosts,
        confidence=confidence,
        error=error,
        between=math.sqrt(between),
        next_low=exp_clamped(mean - reach),
        next_high=exp_clamped(mean + reach),
    )
