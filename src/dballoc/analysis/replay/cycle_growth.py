"""How far each malloc's heap creeps where a trace repeats a cycle, as a day of dump, backup and
load does. Pure.

The heap is read at the end of every cycle. The first quarter of them is left out: a malloc takes a
few to reach its size. Of the rest each replay has one least-squares slope; their mean has Student's
interval over the replays, so it says how surely another replay of this trace creeps as much.
"""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dballoc.analysis.campaign_tables import Campaign
from dballoc.analysis.replay.replay_facts import RecordedMark, ReplayFacts
from dballoc.distributions import compute_t_quantile

CONFIDENCE = 0.95
# With fewer ends of cycles there is no slope worth the name.
_FEWEST_CYCLES = 5
_NUMBERED = re.compile(r"(?P<name>.*\S) (?P<number>\d{1,9})/(?P<count>\d{1,9})")


@dataclass(frozen=True, kw_only=True)
class Cycles:
    """A cycle that a trace repeats: its ``name``, and which of the trace's marks it begins at."""

    name: str
    marks: tuple[int, ...]

    @property
    def settled(self) -> int:
        """The number, from 1, of the first cycle whose end counts."""
        return 1 + (len(self.marks) - 1) // 4


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A variant's heap from cycle to cycle: ``slope`` in bytes a cycle, with its interval, infinite
    where fewer than two of its ``replays`` went to their end; ``heap``: at the last end, bytes.
    """

    variant: str
    slope: float
    low: float
    high: float
    heap: float
    replays: int

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return self.replays > 1


@dataclass(frozen=True, kw_only=True)
class CycleGrowth:
    """How far the variants creep over a trace's cycles; ``ends``: the heap at their ends, of
    :func:`list_cycle_ends`.
    """

    cycles: Cycles
    ends: pl.DataFrame
    growths: list[Growth]


def find_growth(campaign: Campaign, facts: ReplayFacts) -> CycleGrowth | None:
    """Return how far the variants creep; None where the trace repeats no cycle, or says nothing of
    memory.
    """
    cycles = find_cycles(facts.marks) if facts.from_start else None
    if cycles is None:
        return None
    ends = list_cycle_ends(campaign, cycles)
    growths = measure_growth(ends, cycles, campaign.names)
    return CycleGrowth(cycles=cycles, ends=ends, growths=growths) if growths else None


def find_cycles(marks: Sequence[RecordedMark]) -> Cycles | None:
    """Return the cycle that a trace repeats most often: marks ``NAME 1/N`` to ``NAME N/N``, as
    ``trace repeat`` sets them. Of several that are as frequent, the longest: the one that begins
    first. None if there is none of five.
    """
    groups: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for index, mark in enumerate(marks):
        if match := _NUMBERED.fullmatch(mark.name):
            groups[match["name"], int(match["count"])].append((int(match["number"]), index))
    complete = [
        Cycles(name=name, marks=tuple(index for _, index in group))
        for (name, count), group in groups.items()
        if count >= _FEWEST_CYCLES and [n for n, _ in group] == list(range(1, count + 1))
    ]
    return max(complete, key=lambda cycles: len(cycles.marks), default=None)


def list_cycle_ends(campaign: Campaign, cycles: Cycles) -> pl.DataFrame:
    """Return the heap at the ends of all cycles but the last, after which the trace is over:
    ``variant``, ``trial``, ``cycle`` from 1, ``heap`` in bytes; of good trials.
    """
    # A cycle ends where the next begins.
    ends = pl.DataFrame(
        {"mark": list(cycles.marks[1:]), "cycle": list(range(1, len(cycles.marks)))},
        schema={"mark": pl.Int64, "cycle": pl.Int64},
    )
    return (
        campaign.of(campaign.replay_mark)
        .join(ends, on="mark")
        .select("variant", "trial", "cycle", "heap")
        .sort("variant", "trial", "cycle")
    )


def measure_growth(ends: pl.DataFrame, cycles: Cycles, variants: Sequence[str]) -> list[Growth]:
    """Return the growth of each of the variants that has a replay, in their order. ``ends``: of
    :func:`list_cycle_ends`.
    """
    settled = ends.filter(pl.col("cycle") >= cycles.settled)
    growths = []
    for variant in variants:
        rows = settled.filter(pl.col("variant") == variant)
        slopes = [
            _compute_slope(trial["cycle"].to_list(), trial["heap"].to_list())
            for trial in rows.partition_by("trial")
        ]
        if slopes:
            last = rows.filter(pl.col("cycle") == pl.col("cycle").max())["heap"]
            growths.append(_make_growth(variant, slopes, sum(last) / len(last)))
    return growths


def _make_growth(variant: str, slopes: list[float], heap: float) -> Growth:
    count = len(slopes)
    mean = math.fsum(slopes) / count
    half = math.inf
    if count > 1:
        variance = math.fsum((slope - mean) ** 2 for slope in slopes) / (count - 1)
        half = compute_t_quantile(count - 1, (1 + CONFIDENCE) / 2) * math.sqrt(variance / count)
    return Growth(
        variant=variant, slope=mean, low=mean - half, high=mean + half, heap=heap, replays=count
    )


def _compute_slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the least-squares slope of values over times."""
    middle = math.fsum(times) / len(times)
    spread = math.fsum((time - middle) ** 2 for time in times)
    weighed = math.fsum((t - middle) * v for t, v in zip(times, values, strict=True))
    return weighed / spread if spread else 0.0
