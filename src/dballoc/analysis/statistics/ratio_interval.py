"""Compute ratios to the baseline, with Student's t intervals on their logarithms. Pure."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dballoc.analysis.statistics import detectable_difference
from dballoc.analysis.statistics.moderated_variance import Variance
from dballoc.distributions import compute_t_quantile

# The logarithm of the largest number.
_MOST = math.log(sys.float_info.max)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """variant ÷ baseline. ``low`` and ``high`` are 0 and infinity where there is no interval: with
    fewer than two blocks, or before the first look.

    ``scatter``: the standard deviation of ln ratio from block to block that the interval rests on,
    with ``freedom`` degrees of freedom; moderated where the campaign's procedure says so.
    ``own_scatter``: that of these blocks alone.
    """

    estimate: float
    low: float
    high: float
    blocks: int
    confidence: float
    scatter: float
    freedom: int | None = None
    own_scatter: float = math.nan

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.high)

    @property
    def detectable(self) -> float:
        """The smallest relative rise that as many blocks would show with 80 % power; infinite below
        two blocks. A fall has the same size as a logarithm: see
        :func:`dballoc.analysis.statistics.detectable_difference.convert_to_fall`.
        """
        if self.blocks < 2:
            return math.inf
        return detectable_difference.compute_detectable_by_error(
            self.scatter / math.sqrt(self.blocks),
            self.blocks - 1 if self.freedom is None else self.freedom,
            self.confidence,
        )

    def without_interval(self) -> "Ratio":
        """Return the estimate alone, as it is shown before the first look."""
        return replace(self, low=0.0, high=math.inf)


def compute_variance(logs: Sequence[float]) -> Variance:
    """Return the variance of logarithms, one a block. ValueError below two blocks."""
    if len(logs) < 2:
        raise ValueError("a variance takes two blocks")
    mean = math.fsum(logs) / len(logs)
    freedom = len(logs) - 1
    return Variance(math.fsum((d - mean) ** 2 for d in logs) / freedom, freedom)


def compute_ratio(
    logs: Sequence[float], confidence: float, variance: Variance | None = None
) -> Ratio:
    """Compute exp(mean) and its t interval from one ln ratio per block. ``variance``: the moderated
    one, instead of that of the blocks. ValueError without any block.
    """
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
    block_variance = compute_variance(logs)
    used = variance or block_variance
    scatter = math.sqrt(used.value)
    half = compute_t_quantile(used.freedom, (1 + confidence) / 2) * scatter / math.sqrt(n)
    return Ratio(
        estimate=exp_clamped(mean),
        low=exp_clamped(mean - half),
        high=exp_clamped(mean + half),
        blocks=n,
        confidence=confidence,
        scatter=scatter,
        freedom=used.freedom,
        own_scatter=math.sqrt(block_variance.value),
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
