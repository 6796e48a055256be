"""The figures of replays: by variant, beside the recorded process, and from cycle to cycle.

Fidelity: how far replays are from the recorded process itself, where its memory was measured while
it was recorded, at the marks of the trace.

Growth: how far each malloc's heap creeps where a trace repeats a cycle, as a day of dump, backup
and load does. The heap is read at the end of every cycle. The first quarter of them is left out: a
malloc takes a few to reach its size. Of the rest each replay has one least-squares slope; their
mean has Student's interval over the replays, so it says how surely another replay of this trace
creeps as much.
"""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dballoc.ground.distributions import compute_t_quantile
from dballoc.questions.compare.campaign_tables import Campaign
from dballoc.questions.compare.measures import IDLE, PEAK
from dballoc.questions.statistics.ratio_interval import (
    DESCRIPTIVE_CONFIDENCE,
    Interval,
    compute_variance,
)
from dballoc.store.replay_facts import RecordedMark, ReplayFacts

# Below this share of the highest live bytes heap ÷ live says nothing: a program begins or ends.
_LEAST_LIVE = 0.05
# Points of a curve over the trace's time.
_POINTS = 300


def average_replays(campaign: Campaign) -> pl.DataFrame:
    """Return one row a variant, means over its good trials: ``peak``, ``idle``, ``end`` (heap),
    ``peak_live``, ``own_memory`` in bytes; ``fragmentation`` (peak heap ÷ peak live bytes);
    ``cpu`` and ``malloc`` in ns an event, ``events`` a second, ``faults`` a thousand events,
    ``waited`` seconds; ``failed`` allocations; ``n`` trials.
    """
    steps = campaign.step.filter(kind="level")
    rows = (
        campaign.good.select("trial", "variant", PEAK.trial, IDLE.trial)
        .join(
            steps.select("trial", "cpu", "window_events", "tps", "minor_faults", "rss_end"),
            on="trial",
        )
        .join(campaign.replay, on="trial")
    )
    events = pl.col("window_events")
    averaged = rows.group_by("variant").agg(
        peak=pl.col(PEAK.trial).mean(),
        idle=pl.col("rss_idle").mean(),
        end=pl.col("rss_end").mean(),
        peak_live=pl.col("peak_live").mean(),
        own_memory=pl.col("own_memory").mean(),
        fragmentation=(pl.col(PEAK.trial) / pl.col("peak_live")).mean(),
        cpu=(pl.col("cpu") / events).mean() * 1e9,
        malloc=(pl.col("malloc_seconds") / events).mean() * 1e9,
        events=pl.col("tps").mean(),
        faults=(pl.col("minor_faults") / events).mean() * 1e3,
        waited=pl.col("waited").mean(),
        failed=pl.col("failed").sum(),
        n=pl.len(),
    )
    order = pl.DataFrame({"variant": campaign.names})
    return order.join(averaged, on="variant", how="inner", maintain_order="left")


def average_curves(campaign: Campaign, facts: ReplayFacts) -> pl.DataFrame:
    """Return the heap over the trace's time: ``variant``, ``t`` (s), ``heap`` (the most within the
    stretch that ends at ``t``, mean over trials), ``live`` (bytes) and ``fragmentation`` (heap ÷
    live; null where little is alive).
    """
    points = campaign.of(campaign.replay_point)
    length = max(facts.seconds, float(points["t"].max() or 0.0)) or 1.0  # type: ignore[arg-type]
    stretch = length / _POINTS
    by_trial = (
        points.with_columns(part=(pl.col("t") / stretch).floor().clip(0, _POINTS - 1))
        .group_by("variant", "trial", "part")
        .agg(heap=pl.col("heap").max(), live=pl.col("live").max())
    )
    return (
        by_trial.group_by("variant", "part")
        .agg(heap=pl.col("heap").mean(), live=pl.col("live").mean())
        .with_columns(
            t=(pl.col("part") + 1) * stretch,
            fragmentation=pl.when(pl.col("live") > _LEAST_LIVE * pl.col("live").max()).then(
                pl.col("heap") / pl.col("live")
            ),
        )
        .select("variant", "t", "heap", "live", "fragmentation")
        .sort("variant", "t")
    )


def average_latencies(campaign: Campaign) -> pl.DataFrame:
    """Return how long calls take: ``variant``, ``operation``, ``largest`` (bytes, of the size
    class), ``calls``, ``p50`` and ``p99`` in ns; means over the good trials.
    """
    return (
        campaign.of(campaign.replay_latency)
        .group_by("variant", "operation", "largest")
        .agg(pl.col("calls").mean(), pl.col("p50").mean(), pl.col("p99").mean())
        .sort("operation", "largest", "variant")
    )


# The names of what is measured at a mark: resident bytes, those of malloc's memory among them, and
# the most resident bytes since the mark before; the peak heap of a start without the recorder; and
# what is in use by malloc's own books.
RSS, HEAP, HEAP_PEAK, BOOKS = "rss", "heap", "heap_peak", "malloc_live"


@dataclass(frozen=True, kw_only=True)
class MarkFidelity:
    """The heap at a mark: ``real`` of the recorded process, ``replayed`` under the same malloc;
    ``books``: what was in use by the malloc's own books, None if it was not read; ``alive``: what
    was by the trace. In bytes.
    """

    t: float
    name: str
    real: int
    replayed: float
    books: int | None
    alive: float

    @property
    def error(self) -> float:
        """By which share the replay has more."""
        return self.replayed / self.real - 1


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """The replay under the recorded malloc, as ``variant``, beside the recorded process: peak heap,
    in bytes, and the heap at the marks. ``peak_is_estimated``: whether the real peak is the
    high-water mark of RSS less what was not heap, of a start without the recorder where there was
    one; else it is the most at any mark, on both sides.
    """

    variant: str
    real_peak: int
    replayed_peak: float
    peak_is_estimated: bool
    marks: list[MarkFidelity]

    @property
    def error(self) -> float:
        """By which share the replay's peak is higher."""
        return self.replayed_peak / self.real_peak - 1


def measure_fidelity(campaign: Campaign, facts: ReplayFacts) -> Fidelity | None:
    """Compare the replay under the recorded malloc with the recorded process. None if its memory
    was not measured, or if no variant's malloc is the recorded one.
    """
    variant = facts.recorded_variant
    measured = [
        (i, mark)
        for i, mark in enumerate(facts.marks)
        if mark.truth.get(HEAP, 0) > 0 and facts.judges(mark.t)
    ]
    if variant is None or not measured:
        return None
    averages = _average_marks(campaign, variant)
    marks = [
        MarkFidelity(
            t=m.t,
            name=m.name,
            real=m.truth[HEAP],
            replayed=averages[i][0],
            books=m.truth.get(BOOKS),
            alive=averages[i][1],
        )
        for i, m in measured
        if i in averages
    ]
    peaks = campaign.good.filter(variant=variant)[PEAK.trial].drop_nulls()
    if not marks or not len(peaks):
        return None
    # The high-water marks are of whole steps, and not of a stretch.
    estimate = None if facts.window else estimate_real_peak([m for _, m in measured])
    return Fidelity(
        variant=variant,
        real_peak=estimate or max(m.real for m in marks),
        replayed_peak=sum(peaks) / len(peaks) if estimate else max(m.replayed for m in marks),
        peak_is_estimated=estimate is not None,
        marks=marks,
    )


def estimate_real_peak(marks: list[RecordedMark]) -> int | None:
    """Return the process's peak heap in bytes: that of a start without the recorder, which is not
    changed by it; else the high-water mark of the recorded one's RSS, less what of RSS was not heap
    at the mark. None where neither was measured.
    """
    for mark in marks:
        if mark.truth.get(HEAP_PEAK, 0) > 0:
            return mark.truth[HEAP_PEAK]
    peaks = [
        m.truth[PEAK.name] - (m.truth[RSS] - m.truth[HEAP])
        for m in marks
        if m.truth.keys() >= {RSS, HEAP, PEAK.name}
    ]
    return max(max(peaks), *(m.truth[HEAP] for m in marks)) if peaks else None


def _average_marks(campaign: Campaign, variant: str) -> dict[int, tuple[float, float]]:
    """Return the mean heap of a variant's good trials, and what is alive, at each mark."""
    rows = campaign.of(campaign.replay_mark).filter(variant=variant)
    means = rows.group_by("mark").agg(pl.col("heap").mean(), pl.col("live").mean())
    return {mark: (heap, live) for mark, heap, live in means.iter_rows()}


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
class HeapGrowth:
    """A variant's heap from cycle to cycle: ``slope`` in bytes a cycle, with its interval,
    None where fewer than two of its ``replays`` went to their end; ``heap``: at the last end,
    bytes.
    """

    variant: str
    slope: float
    interval: Interval | None
    heap: float
    replays: int


@dataclass(frozen=True, kw_only=True)
class CycleGrowth:
    """How far the variants creep over a trace's cycles; ``ends``: the heap at their ends, of
    :func:`list_cycle_ends`.
    """

    cycles: Cycles
    ends: pl.DataFrame
    growths: list[HeapGrowth]


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


def measure_growth(ends: pl.DataFrame, cycles: Cycles, variants: Sequence[str]) -> list[HeapGrowth]:
    """Return the growth of each of the variants that has a replay, in their order. ``ends``: of
    :func:`list_cycle_ends`.
    """
    settled = ends.filter(pl.col("cycle") >= cycles.settled)
    growths = []
    for variant in variants:
        rows = settled.filter(variant=variant)
        slopes = [
            _compute_slope(trial["cycle"].to_list(), trial["heap"].to_list())
            for trial in rows.partition_by("trial")
        ]
        if slopes:
            last = rows.filter(pl.col("cycle") == pl.col("cycle").max())["heap"]
            growths.append(_make_growth(variant, slopes, sum(last) / len(last)))
    return growths


def _make_growth(variant: str, slopes: list[float], heap: float) -> HeapGrowth:
    count = len(slopes)
    mean = math.fsum(slopes) / count
    interval = None
    if count > 1:
        variance = compute_variance(slopes).value
        quantile = compute_t_quantile(count - 1, (1 + DESCRIPTIVE_CONFIDENCE) / 2)
        half = quantile * math.sqrt(variance / count)
        interval = Interval(mean - half, mean + half)
    return HeapGrowth(variant=variant, slope=mean, interval=interval, heap=heap, replays=count)


def _compute_slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the least-squares slope of values over times."""
    middle = math.fsum(times) / len(times)
    spread = math.fsum((time - middle) ** 2 for time in times)
    weighed = math.fsum((t - middle) * v for t, v in zip(times, values, strict=True))
    return weighed / spread if spread else 0.0
