"""Rows of the results database, made from the measurements of a trial's steps. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dballoc.experiment.trial_steps import Step
from dballoc.explain.ledger.ledger import Ledger
from dballoc.instruments import memory_marks
from dballoc.instruments.host_sampler import HostSample
from dballoc.instruments.memory_marks import MemoryMark
from dballoc.instruments.process_sampler import ProcessSample
from dballoc.instruments.server_counters import Reading, interpolate_reading, scale_counts
from dballoc.load.client_output import IntervalReport, Total, milliseconds, percentile
from dballoc.store.rows import (
    HostSampleRow,
    HostStepRow,
    IntervalRow,
    LedgerRow,
    MarkRow,
    SampleRow,
    StepCounterRow,
    StepRow,
)

COUNTERS = (
    "cpu",
    "cpu_user",
    "cpu_system",
    "voluntary",
    "involuntary",
    "minor_faults",
    "major_faults",
)
# Counters of a step beside those of a sample, where they may be read.
STEP_COUNTERS = (*COUNTERS, "written")
HOST_COUNTERS = ("user", "system", "idle", "iowait", "steal", "switches")


@dataclass(kw_only=True)
class StepMeasurements:
    """Everything that is measured in a step, so far. ``started`` and ``ended`` are CLOCK_MONOTONIC;
    ``samples`` of a finished step include one at each end; ``rss_peak`` is in bytes. ``readings``:
    of the server's perf events, where the host counts them; ``host``: samples of the whole host,
    taken with those of the server.
    """

    step: Step
    started: float
    ended: float = 0.0
    samples: list[ProcessSample] = field(default_factory=list)
    intervals: list[IntervalReport] = field(default_factory=list)
    total: Total | None = None
    histogram: Sequence[tuple[float, int]] = ()
    rss_peak: int = 0
    readings: list[Reading] = field(default_factory=list)
    host: list[HostSample] = field(default_factory=list)


def interpolate_counter(
    samples: Sequence[ProcessSample] | Sequence[HostSample], clock: float, counter: str
) -> float:
    """Return a counter at the moment ``clock``: linear between the samples around it, the nearest
    sample's before the first and after the last.
    """
    right = bisect_right([s.clock for s in samples], clock)
    if right == 0 or right == len(samples):
        return float(getattr(samples[min(right, len(samples) - 1)], counter))
    a, b = samples[right - 1], samples[right]
    share = (clock - a.clock) / (b.clock - a.clock)
    return float(getattr(a, counter) + share * (getattr(b, counter) - getattr(a, counter)))


def find_counter_window(step_data: StepMeasurements) -> tuple[float, float, int] | None:
    """Return (start, end, events) of the time over which counters are compared: from the first
    report to the last, so that connecting is left out; with a single report, from the step's start.
    None without load.
    """
    intervals = step_data.intervals
    if not intervals:
        return None
    if len(intervals) == 1:
        return step_data.started, intervals[0].clock, intervals[0].events
    return intervals[0].clock, intervals[-1].clock, sum(i.events for i in intervals[1:])


def make_step_row(step_data: StepMeasurements, t0: float) -> StepRow:
    """Return the row of table ``step``. ``t0``: CLOCK_MONOTONIC at the trial's start."""
    step, samples = step_data.step, step_data.samples
    row = StepRow(
        step=step.number,
        kind=step.stored_kind,
        workload=step.workload,
        threads=step.threads,
        t=step_data.started - t0,
        seconds=step_data.ended - step_data.started,
        rss_start=samples[0].rss,
        rss_mean=sum(s.rss for s in samples) / len(samples),
        rss_peak=step_data.rss_peak,
        rss_end=samples[-1].rss,
    )
    if step_data.total is not None:
        row = replace(row, **_make_total_columns(step_data.total, step_data.histogram))
    if window := find_counter_window(step_data):
        start, end, events = window
    else:
        start, end, events = samples[0].clock, samples[-1].clock, 0
    return replace(
        row,
        window=end - start,
        window_events=events if window else None,
        **_count_between(samples, start, end, STEP_COUNTERS),
    )


def make_host_step_rows(step_data: StepMeasurements) -> list[HostStepRow]:
    """Return the row of table ``host_step``: the host's counters over the step's window. None for a
    step in which the host was not sampled.
    """
    host = step_data.host
    if not host:
        return []
    window = find_counter_window(step_data)
    start, end = window[:2] if window else (host[0].clock, host[-1].clock)
    return [make_host_step_row(step_data.step.number, host, start, end)]


def make_host_step_row(
    step: int, samples: Sequence[HostSample], start: float, end: float
) -> HostStepRow:
    """Return the row of table ``host_step``: the host's counters from the moment ``start`` to
    ``end``.
    """
    counted = _count_between(samples, start, end, (*HOST_COUNTERS, "own_cpu"))
    return HostStepRow(step=step, seconds=end - start, **counted)


def _count_between(
    samples: Sequence[ProcessSample] | Sequence[HostSample],
    start: float,
    end: float,
    counters: Sequence[str],
) -> dict[str, Any]:
    """Return the increase of each counter from the moment ``start`` to ``end``; None if a sample
    lacks it.
    """
    return {
        name: None
        if any(getattr(sample, name) is None for sample in samples)
        else interpolate_counter(samples, end, name) - interpolate_counter(samples, start, name)
        for name in counters
    }


def _make_total_columns(total: Total, histogram: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Return the columns of table ``step`` that come from the client's totals at its end."""
    buckets = list(histogram)
    return {
        "events": total.events,
        "queries": total.queries,
        "tps": total.events / total.seconds,
        "qps": total.queries / total.seconds,
        "errors": total.errors,
        "reconnects": total.reconnects,
        "latency_min": milliseconds(total.latency_min),
        "latency_avg": milliseconds(total.latency_avg),
        "latency_max": milliseconds(total.latency_max),
        "p50": percentile(buckets, 0.5),
        "p95": percentile(buckets, 0.95),
        "p99": percentile(buckets, 0.99),
        "p999": percentile(buckets, 0.999),
    }


def make_step_counter_rows(
    step_data: StepMeasurements, events: Sequence[str]
) -> list[StepCounterRow]:
    """Return the rows of table ``step_counter``: what was counted in the step's window."""
    window = find_counter_window(step_data)
    if not step_data.readings or not window:
        return []
    start, end = (interpolate_reading(step_data.readings, clock) for clock in window[:2])
    counts = scale_counts(events, start, end)
    return [StepCounterRow(step=step_data.step.number, **vars(count)) for count in counts]


def make_sample_row(step: int, sample: ProcessSample, mark: MemoryMark, t0: float) -> SampleRow:
    """Return the row of table ``sample``. ``mark``: the last mark before the sample."""
    return SampleRow(
        step=step,
        t=sample.clock - t0,
        rss=sample.rss,
        vsz=sample.vsz,
        reserved=memory_marks.compute_reserved_bytes(sample.vsz, sample.accessible, mark),
        swap=sample.swap,
        threads=sample.threads,
        **{name: getattr(sample, name) for name in COUNTERS},
    )


def make_host_sample_row(step: int, sample: HostSample, t0: float) -> HostSampleRow:
    """Return the row of table ``host_sample``."""
    return HostSampleRow(
        step=step,
        t=sample.clock - t0,
        **{name: getattr(sample, name) for name in (*HOST_COUNTERS, "reschedules")},
    )


def make_interval_row(step: int, interval: IntervalReport, t0: float) -> IntervalRow:
    """Return the row of table ``interval``."""
    return IntervalRow(
        step=step,
        t=interval.clock - t0,
        seconds=interval.seconds,
        threads=interval.threads,
        events=interval.events,
        queries=interval.queries,
        latency=milliseconds(interval.latency),
        errors=interval.errors,
        reconnects=interval.reconnects,
    )


def make_mark_row(step: int, mark: MemoryMark, t0: float) -> MarkRow:
    """Return the row of table ``mark``."""
    return MarkRow(
        step=step,
        t=mark.clock - t0,
        rss=mark.rss,
        pss=mark.pss,
        anon_huge=mark.anon_huge,
        reserved=mark.reserved,
        read_only=mark.read_only,
        mappings=mark.mappings,
    )


def make_ledger_rows(ledger: Ledger) -> list[LedgerRow]:
    """Return the rows of table ``ledger``, without the lines' sources and evidence."""
    lines = [(x.group, str(x.owner), x.resident, x.size) for x in ledger.lines]
    return [
        LedgerRow(line=number, part=part, owner=owner, resident=resident, size=size)
        for number, (part, owner, resident, size) in enumerate(
            [*lines, ("rest", "rest", ledger.rest, ledger.rest)]
        )
    ]
