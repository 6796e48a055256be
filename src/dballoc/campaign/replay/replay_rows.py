"""Rows of the results database, made from what one replay measured. Pure."""

import json
from dataclasses import replace

from dballoc.experiment.model import REPLAY
from dballoc.store.replay_facts import RecordedTrace
from dballoc.store.results import TrialRecord
from dballoc.store.rows import ReplayLatencyRow, ReplayMarkRow, ReplayPointRow, ReplayRow, StepRow
from dballoc.trace.replay.replay_result import (
    ReplayFault,
    ReplayFigures,
    ReplayResult,
)

# The trial's only step with events, and the idle wait after it.
_EVENTS, _IDLE = 1, 2
# What the store calls the engine's faults.
_FAULTS = {
    "oom": "oom",
    "crash": "died",
    "hang": "hang",
    "no memory": "died",
    "not proved": "proof",
}
# bytes: of the class without a limit, more than any block has.
ENDLESS = 2**48


def fill_record(
    record: TrialRecord,
    result: ReplayResult,
    trace: RecordedTrace,
    idle: float,
    window: tuple[float, float] | None = None,
) -> TrialRecord:
    """Fill in what a replay of the ``trace`` measured, with ``idle`` seconds of rest at its end; or
    its fault. The peak is that of the ``window``, in seconds of the trace, where there is one.
    Returns the record.
    """
    record.trial.proof = json.dumps({"bindings": result.bindings})
    if result.fault or result.figures is None:
        fault = result.fault or ReplayFault(kind="crash", text="it gave no figures")
        record.trial = replace(
            record.trial,
            outcome="fault",
            fault=_FAULTS[fault.kind],
            fault_text=fault.text,
            log_tail=result.printed[-2000:],
        )
        return record
    figures = result.figures
    peak = figures.peak_heap if window is None else find_peak_within(figures, window)
    record.trial = replace(
        record.trial,
        exit_status=0,
        seconds_planned=figures.seconds + idle,
        rss_start=0,
        rss_peak=peak,
        rss_idle=figures.idle_heap,
    )
    record.rows += _make_step_rows(figures, max(1, trace.threads), idle)
    _add_details(record, figures, len(trace.marks))
    return record


def find_peak_within(figures: ReplayFigures, window: tuple[float, float]) -> int:
    """Return the highest heap within a stretch of the trace, from the readings that are wholly in
    it; where there are none, from those that touch it; 0 where the trace has nothing there. Bytes.
    """
    begin, end = (1e9 * seconds for seconds in window)
    curve = figures.curve
    # A point stands for the stretch since the one before.
    points = list(zip((0, *curve.time), curve.time, curve.heap, strict=False))
    inside = [heap for since, until, heap in points if begin <= since and until <= end]
    inside += [moment.heap for moment in figures.moments if begin <= moment.time <= end]
    touching = [heap for since, until, heap in points if since < end and until > begin]
    return max(inside or touching, default=0)


def _make_step_rows(figures: ReplayFigures, threads: int, idle: float) -> list[StepRow]:
    """Return the rows of table ``step``: the events, and the rest after them where there is one."""
    rows = [
        StepRow(
            step=_EVENTS,
            kind="level",
            workload=REPLAY,
            threads=threads,
            t=0.0,
            seconds=figures.seconds,
            events=figures.events,
            tps=figures.events / figures.seconds if figures.seconds else None,
            window=figures.seconds,
            window_events=figures.events,
            cpu=figures.cpu,
            minor_faults=figures.minor_faults,
            major_faults=figures.major_faults,
            rss_peak=figures.peak_heap,
            rss_end=figures.end_heap,
        )
    ]
    if figures.idle_heap is not None:
        rows.append(
            StepRow(
                step=_IDLE,
                kind="idle",
                t=figures.seconds,
                seconds=idle,
                rss_peak=figures.peak_heap,
                rss_end=figures.idle_heap,
            )
        )
    return rows


def _add_details(record: TrialRecord, figures: ReplayFigures, marks: int) -> None:
    """Fill in the tables that replays alone have, with the first so many marks."""
    waits = (figures.handover_waits, figures.window_waits)
    record.rows.append(
        ReplayRow(
            events=figures.events,
            malloc_seconds=figures.malloc_seconds,
            waited=sum(w.seconds for w in waits),
            own_memory=figures.engine_memory,
            peak_live=figures.peak_live,
            end_live=figures.end_live,
            failed=figures.failed,
            lateness=figures.lateness,
        )
    )
    curve = figures.curve
    record.rows += [
        ReplayPointRow(point=i, t=time / 1e9, heap=heap, live=live)
        for i, (time, heap, live) in enumerate(zip(curve.time, curve.heap, curve.live, strict=True))
    ]
    record.rows += [
        ReplayMarkRow(mark=i, heap=moment.heap, live=moment.live)
        for i, moment in enumerate(figures.moments[:marks])
    ]
    record.rows += [
        ReplayLatencyRow(
            operation=o.operation,
            largest=ENDLESS if o.largest is None else o.largest,
            calls=o.calls,
            p50=o.quantile(0.5),
            p99=o.quantile(0.99),
        )
        for o in figures.operations
        if o.calls
    ]
