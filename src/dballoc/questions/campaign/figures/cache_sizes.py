"""Peak RSS of variants that differ in the size of their cache: what a cache costs beside itself,
and between which sizes the kernel kills a server for its memory.
"""

import json
import statistics
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from dballoc.experiment import scale
from dballoc.experiment.model import Variant
from dballoc.questions.campaign.figures import variant_lines
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import PEAK


@dataclass(frozen=True, kw_only=True)
class CacheSize:
    """A variant, as a point of its ``line``. ``size``: of its cache, in bytes; ``full_size``: the
    same before the experiment was made smaller; ``peaks``: peak RSS of the trials that ended as
    planned; ``kills``: how many trials were killed for their memory, of ``trials``;
    ``killed_at``: the highest RSS seen of those, None if none was seen.
    """

    line: str
    variant: str
    size: int
    full_size: int
    peaks: tuple[int, ...]
    kills: int
    trials: int
    killed_at: int | None

    @property
    def peak(self) -> float | None:
        """Mean peak RSS in bytes; None where no trial ended as planned."""
        return statistics.fmean(self.peaks) if self.peaks else None

    @property
    def ratio(self) -> float | None:
        """Mean peak RSS ÷ cache; None where no trial ended as planned."""
        return None if self.peak is None else self.peak / self.size


@dataclass(frozen=True, kw_only=True)
class CacheLine:
    """The sizes of one line, smallest first."""

    name: str
    sizes: tuple[CacheSize, ...]

    @property
    def survivors(self) -> list[CacheSize]:
        """The sizes at which any trial ended as planned."""
        return [size for size in self.sizes if size.peaks]

    @property
    def growth(self) -> float | None:
        """Bytes of peak RSS for each further byte of cache, from the smallest size that survives to
        the largest; None below two. What a server has beside its cache is not in it.
        """
        if not self.survivors or self.survivors[0].size == self.survivors[-1].size:
            return None
        first, last = self.survivors[0], self.survivors[-1]
        assert first.peak is not None and last.peak is not None
        return (last.peak - first.peak) / (last.size - first.size)

    @property
    def smallest_killed(self) -> CacheSize | None:
        """The smallest size at which any trial was killed."""
        return next((size for size in self.sizes if size.kills), None)

    @property
    def largest_survivor(self) -> CacheSize | None:
        """The largest size below that at which trials ended as planned."""
        killed = self.smallest_killed
        below = [s for s in self.survivors if killed is None or s.size < killed.size]
        return below[-1] if below else None


def read_cache_lines(campaign: Campaign) -> list[CacheLine]:
    """Return the lines of variants that differ in the size of their cache alone, in the order of
    the experiment; nothing unless some do.
    """
    e = campaign.experiment
    full = scale.restore_full_scale(e)
    sizes = {v.name: size for v in e.variant if (size := scale.find_cache_size(e, v))}
    full_sizes = {v.name: scale.find_cache_size(full, v) for v in full.variant}
    sized = [v for v in e.variant if v.name in sizes]
    options = tuple(scale.ENGINE_CACHES.values())
    lines = variant_lines.name_lines(e, sized, _describe_but_cache, options)
    points = [
        _read_size(campaign, line, name, sizes[name], full_sizes.get(name) or sizes[name])
        for name, line in lines.items()
    ]
    points.sort(key=lambda point: (list(lines.values()).index(point.line), point.size))
    grouped = [
        CacheLine(name=name, sizes=tuple(of_line))
        for name, of_line in groupby(points, key=lambda point: point.line)
    ]
    differ = any(len({point.size for point in line.sizes}) > 1 for line in grouped)
    return grouped if differ else []


def _describe_but_cache(variant: Variant) -> str:
    table = variant.model_dump(mode="json", exclude={"name", "stands_for"})
    table["server"]["options"] = scale.drop_cache_size(variant.server.options)
    return json.dumps(table, sort_keys=True)


def _read_size(campaign: Campaign, line: str, name: str, size: int, full_size: int) -> CacheSize:
    trials = campaign.trial.filter("counted", variant=name)
    # With a start for each level or workload, the highest of a block's starts.
    peaks = (
        trials.filter(outcome="ok")
        .group_by("block", "role", maintain_order=True)
        .agg(pl.col(PEAK.trial).max())[PEAK.trial]
        .drop_nulls()
    )
    killed = trials.filter(fault="oom")
    return CacheSize(
        line=line,
        variant=name,
        size=size,
        full_size=full_size,
        peaks=tuple(peaks.to_list()),
        kills=killed.height,
        trials=trials.height,
        killed_at=killed[PEAK.trial].max(),  # type: ignore[arg-type]
    )
