"""Whether a figure grows over a series of looks, with its uncertainty. Pure.

A line through all points would call chance growth: what a server has in memory now it has in the
next second too, so that the points' errors are anything but independent. Instead the series is cut
into stretches, and the rises from the mean of one to the mean of the next are taken as a sample:
their mean is the rate, Student's t its interval. Of a random walk, the worst that a server without
a trend does, such rises are correlated by 1/4 with their neighbours, which makes their mean's
variance up to 1.5 times as large; the interval is that much wider.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_CORRELATED = math.sqrt(1.5)
_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Growth:
    """``rate`` a second, with its 95 % interval ``low`` to ``high``; ``early`` and ``late``: the
    rate in each half; ``change`` from the first look to the last, ``seconds`` between them;
    ``looks``: how many.
    """

    rate: float
    low: float
    high: float
    early: float
    late: float
    change: float
    seconds: float
    looks: int

    @property
    def grows(self) -> bool:
        """Shown by the interval."""
        return self.low > 0

    @property
    def shrinks(self) -> bool:
        """Shown by the interval."""
        return self.high < 0


def growth(
    times: Sequence[float], values: Sequence[float], stretches: int, least: int
) -> Growth | None:
    """Of ``values`` at ``times`` (seconds, rising); None with fewer than ``least`` looks (4 at the
    least).
    """
    n = len(values)
    if n < max(4, least):
        return None
    from scipy.special import stdtrit  # here: it takes a second to load, and most looks are single

    pieces = min(stretches, n // 2 if n >= 8 else n)
    at = np.array(
        [part.mean() for part in np.array_split(np.asarray(times, float) - times[0], pieces)]
    )
    mean = np.array([part.mean() for part in np.array_split(np.asarray(values, float), pieces)])
    rates = np.diff(mean) / np.diff(at)
    rate, half = float(rates.mean()), len(rates) // 2
    error = float(rates.std(ddof=1)) / math.sqrt(len(rates)) * _CORRELATED
    reach = float(stdtrit(len(rates) - 1, (1 + _LEVEL) / 2)) * error
    return Growth(
        rate=rate,
        low=rate - reach,
        high=rate + reach,
        early=float(rates[: len(rates) - half].mean()),
        late=float(rates[-half:].mean()),
        change=float(values[-1] - values[0]),
        seconds=float(times[-1] - times[0]),
        looks=n,
    )
