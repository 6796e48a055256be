"""Compute ratios to the baseline, with Student's t intervals on their logarithms. Pure."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Student's t quantile: stdtrit(degrees of freedom, probability). scipy.stats has it too, but
# takes two seconds to import.
from scipy.special import stdtrit

from dballoc.analysis.statistics import detectable_difference

# The logarithm of the largest number.
_MOST = math.log(sys.float_info.max)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """variant ÷ baseline. ``low`` and ``high`` are 0 and infinity with fewer than two blocks."""

    estimate: float
    low: float
    high: float
    blocks: int
    confidence: float
    scatter: float

    @property
    def detectable(self) -> float:
        """The smallest relative difference that as many blocks would show with 80 % power; infinite
        below two blocks.
        """
        return detectable_difference.compute_detectable(self.scatter, self.blocks, self.confidence)


def compute_ratio(logs: Sequence[float], confidence: float) -> Ratio:
    """Compute exp(mean) and its t interval from one ln ratio per block. ValueError without any."""
    if not logs:
        raise ValueError("no block to take a ratio from")
    n = len(logs)
    mean = math.fsum(logs) / n
    if n == 1:
        return Ratio(
            estimate=exp_clamped(mean),
            low=0.0,
            high=math.inf,
            blocks=1,
            confidence=confidence,
            scatter=math.nan,
        )
    scatter = math.sqrt(math.fsum((d - mean) ** 2 for d in logs) / (n - 1))
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * scatter / math.sqrt(n)
    return Ratio(
        estimate=exp_clamped(mean),
        low=exp_clamped(mean - half),
        high=exp_clamped(mean + half),
        blocks=n,
        confidence=confidence,
        scatter=scatter,
    )


def exp_clamped(log: float) -> float:
    """Return a ratio, or an interval's end, from its logarithm. Two wild blocks at the level of a
    large family may give one beyond all floats: then it is the largest float, which charts and JSON
    can show.
    """
    return math.exp(log) if log < _MOST else sys.float_info.max


def compute_logs_to_baseline(
    values: Mapping[tuple[int, str], float], roles: tuple[str, str] = ("A1", "A2")
) -> list[float]:
    """Return one ln ratio per block: ln(V) − mean ln(A1, A2). ``values`` by (block, role); a block
    that lacks one of the roles is left out.
    """
    first, second = roles
    blocks = sorted({block for block, _ in values})
    return [
        math.log(values[b, "V"]) - (math.log(values[b, first]) + math.log(values[b, second])) / 2
        for b in blocks
        if all(values.get((b, role), 0) > 0 for role in ("V", first, second))
    ]


def compute_logs_between_baselines(values: Mapping[tuple[int, str], float]) -> list[float]:
    """Return one ln(A2 ÷ A1) per block: the A/A floor."""
    blocks = sorted({block for block, _ in values})
    return [
        math.log(values[b, "A2"]) - math.log(values[b, "A1"])
        for b in blocks
        if all(values.get((b, role), 0) > 0 for role in ("A1", "A2"))
    ]
