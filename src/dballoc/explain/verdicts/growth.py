"""Whether a value grows over a series of snapshots, with its uncertainty. Pure.

A regression line through all points would mistake chance for growth: what a server has in memory
now it still has a second later, so the points' errors are not independent. Instead the series is
cut into stretches, and the rises from the mean of one to the mean of the next are the sample: their
mean is the rate, and Student's t gives its interval. In a random walk, the worst that a server
without a trend does, such rises correlate by 1/4 with their neighbours, which makes the variance of
their mean up to 1.5 times as large; the interval is widened by the root of that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dballoc.ground.distributions import find_t_quantile

_CORRELATED = math.sqrt(1.5)
_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Growth:
    """``rate`` a second, with its 95 % interval ``low`` to ``high``; ``early`` and ``late``: the
    rate in each half; ``change`` from the first snapshot to the last, ``seconds`` between them;
    ``snapshots``: how many they are.
    """

    rate: float
    low: float
    high: float
    early: float
    late: float
    change: float
    seconds: float
    snapshots: int

    @property
    def grows(self) -> bool:
        """Whether all of the interval is above 0."""
        return self.low > 0

    @property
    def shrinks(self) -> bool:
        """Whether all of the interval is below 0."""
        return self.high < 0


def estimate_growth(
    times: Sequence[float], values: Sequence[float], stretches: int, least: int
) -> Growth | None:
    """Estimate the growth of ``values`` at ``times`` (seconds, rising), from the rises between so
    many ``stretches``; None with fewer than ``least`` values, or than 4.
    """
    count = len(values)
    if count < max(4, least):
        return None

    pieces = min(stretches, count // 2 if count >= 8 else count)
    mean_times = _average_pieces([time - times[0] for time in times], pieces)
    means = _average_pieces(values, pieces)
    rates = [
        (later - earlier) / (end - start)
        for (earlier, later), (start, end) in zip(
            pairwise(means), pairwise(mean_times), strict=True
        )
    ]
    rate, half = _average(rates), len(rates) // 2
    variance = math.fsum((each - rate) ** 2 for each in rates) / (len(rates) - 1)
    error = math.sqrt(variance / len(rates)) * _CORRELATED
    half_width = find_t_quantile(len(rates) - 1, (1 + _LEVEL) / 2) * error
    return Growth(
        rate=rate,
        low=rate - half_width,
        high=rate + half_width,
        early=_average(rates[: len(rates) - half]),
        late=_average(rates[-half:]),
        change=float(values[-1] - values[0]),
        seconds=float(times[-1] - times[0]),
        snapshots=count,
    )


def _average(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _average_pieces(values: Sequence[float], pieces: int) -> list[float]:
    """Return the means of so many pieces of a series, the first ones longer by one where they
    cannot be equally long.
    """
    length, longer = divmod(len(values), pieces)
    edges = [piece * length + min(piece, longer) for piece in range(pieces + 1)]
    return [_average(values[start:end]) for start, end in pairwise(edges)]
