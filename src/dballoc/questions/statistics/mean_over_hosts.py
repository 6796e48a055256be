"""Average an effect over hosts, each a draw from all such hosts: a random-effects mean. Pure.

Hartung and Knapp's interval (Statistics in Medicine 20, 2001: 3875) takes Student's t on hosts − 1
and the scatter that the hosts show. Here every host has the same weight, with which it is the t
interval of the hosts' own means. Weights of 1 ÷ estimated variance look better and are worse: a
campaign has few blocks, so the host whose blocks agree by luck gets most of the weight, and at the
levels of a family such verdicts err up to fourteen times as often as they may
(``benchmarks/combined_hosts.py``; docs/evidence.md has the table).

Hosts that agree by luck would give an interval next to nothing. So the mean's variance is never
less than what the scatter of the hosts' blocks alone gives it: Knapp and Hartung's modification
(Statistics in Medicine 22, 2003: 2693; Röver, Knapp and Friede, BMC Medical Research Methodology
15, 2015: 99).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dballoc.ground.distributions import compute_t_quantile
from dballoc.questions.statistics.ratio_interval import (
    Interval,
    Ratio,
    compute_interval,
    compute_variance,
    exp_clamped,
)

# Under so many hosts there is no verdict for all: three would leave t two degrees of freedom, on
# which an interval at a family's level reaches anywhere.
FEWEST_HOSTS = 4


@dataclass(frozen=True, kw_only=True)
class MeanOverHosts(Ratio):
    """variant ÷ baseline over hosts. ``between``: the standard deviation of ln ratio from host to
    host, blocks' scatter taken out; None if no host has two blocks, for then nothing tells the one
    from the other. ``next_host``: where one further host of these kinds would lie, at the same
    ``confidence``.
    """

    hosts: int
    between: float | None
    next_host: Interval | None


def compute_mean_over_hosts(
    logs_by_host: Sequence[Sequence[float]], confidence: float, fewest: int = FEWEST_HOSTS
) -> MeanOverHosts:
    """Compute the mean of the hosts' mean ln ratios with its interval, from one ln ratio a block of
    each host. ``fewest``: the hosts below which there is no interval.

    The scatter between hosts is that of their means less what their blocks' scatter puts into them
    (Hedges and Olkin's estimate, 0 where that is more). A further host lies within
    t √(between² + error²) of the mean (Higgins, Thompson and Spiegelhalter, Journal of the Royal
    Statistical Society A 172, 2009: 137; here with hosts − 1 degrees of freedom); with one block on
    every host, between² is all of the scatter.

    Raises ValueError below two hosts, or for a host without a block.
    """
    if len(logs_by_host) < 2 or not all(logs_by_host):
        raise ValueError("a mean over hosts takes two hosts with a block each")
    means = [math.fsum(logs) / len(logs) for logs in logs_by_host]
    hosts = len(means)
    mean = math.fsum(means) / hosts
    variance = compute_variance(means).value
    within = estimate_variance_within(logs_by_host)
    between = max(0.0, variance - (within or 0.0))
    error = math.sqrt(max(variance, within or 0.0) / hosts)
    quantile = compute_t_quantile(hosts - 1, (1 + confidence) / 2)
    reach = quantile * math.sqrt(between + error**2)
    return MeanOverHosts(
        estimate=exp_clamped(mean),
        interval=compute_interval(mean, quantile * error) if hosts >= fewest else None,
        blocks=sum(map(len, logs_by_host)),
        confidence=confidence,
        error=error,
        freedom=hosts - 1,
        hosts=hosts,
        between=None if within is None else math.sqrt(between),
        next_host=compute_interval(mean, reach) if hosts >= fewest else None,
    )


def estimate_variance_within(logs_by_host: Sequence[Sequence[float]]) -> float | None:
    """Return what blocks' scatter puts into the variance of the hosts' means: of each host s² ÷
    blocks, on average. A host with one block shows no scatter; it is taken to have that of the
    others' blocks together. None if every host has one block.
    """
    variances = [compute_variance(logs) if len(logs) > 1 else None for logs in logs_by_host]
    several = [v for v in variances if v]
    if not several:
        return None
    pooled = math.fsum(v.value * v.freedom for v in several) / sum(v.freedom for v in several)
    return math.fsum(
        (variance.value if variance else pooled) / len(logs)
        for variance, logs in zip(variances, logs_by_host, strict=True)
    ) / len(logs_by_host)
