"""Results directories of replays that no engine ran: whole campaigns, and what a replay measured."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from example_results import MIB, block_row, facts, fault

from dballoc.campaign.replay.replay_rows import fill_record
from dballoc.experiment import schedule
from dballoc.experiment.model import REPLAY, Experiment
from dballoc.store.replay_facts import RecordedMark, RecordedTrace, ReplayFacts
from dballoc.store.results import Results, TrialRecord
from dballoc.store.rows import MeasuredTrial, VariantRow
from dballoc.trace.model import NONE, Mark, Objects, RecordingFacts, ThreadEvents, Trace
from dballoc.trace.replay.replay_result import (
    OperationFigures,
    ReplayCurve,
    ReplayFigures,
    ReplayMoment,
    ReplayResult,
    ThreadFigures,
    WaitFigures,
)

EVENTS, SECONDS, THREADS = 1_000_000, 20.0, 3
PEAKS = {"glibc": 90 * MIB, "jemalloc": 80 * MIB, "mimalloc": 84 * MIB}
COSTS = {"glibc": 80.0, "jemalloc": 90.0, "mimalloc": 60.0}  # ns an event
# Of the heap from one mark to the next, where a trace has many: bytes.
CREEPS = {"glibc": 2 * MIB, "jemalloc": 0, "mimalloc": -MIB}
# Of the recorded process, at each mark.
REAL = {
    "rss": 150 * MIB,
    "pss": 148 * MIB,
    "heap": 86 * MIB,
    "rss_peak": 152 * MIB,
    "malloc_live": 55 * MIB,
}


def replay_experiment(**changes: Any) -> Experiment:
    """An experiment of replays; ``changes`` of its keys."""
    table: dict[str, Any] = {
        "name": "oltp",
        "baseline": "glibc",
        "workloads": [REPLAY],
        "threads": [THREADS],
        "design": "solo",
        "counters": [],
        "time": {"idle": "1s"},
        "replay": {"trace": "/tmp/oltp.trace", "sha256": "ab" * 32},
        "variant": [
            {"name": "glibc"},
            {"name": "jemalloc", "allocator": "jemalloc"},
            {"name": "mimalloc", "allocator": "mimalloc"},
        ],
    }
    return Experiment.model_validate(table | changes)


REPLAY_FACTS = ReplayFacts(
    trace="oltp.trace",
    sha256="ab" * 32,
    program="mariadbd",
    allocator="glibc",
    allocator_version="2.36",
    settings={},
    seconds=SECONDS,
    events=EVENTS,
    threads=THREADS,
    peak_live=60 * MIB,
    from_start=True,
    dropped=0,
    ended_by="exit",
    marks=(
        RecordedMark(t=5.0, name="after the start", truth=REAL | {"heap": 40 * MIB}),
        RecordedMark(t=19.0, name="after oltp_read_write", truth=REAL),
    ),
    mode="fast",
    speed=1.0,
    touch="recorded",
    decaying=("jemalloc", "mimalloc"),
    recorded_variant="glibc",
)


def result(variant: str, wobble: float = 1.0) -> ReplayResult:
    """What one replay measures under a malloc; ``wobble`` is a factor of all its figures."""
    peak = int(PEAKS[variant] * wobble)
    points = 400
    times = tuple(int(SECONDS * 1e9 * i / points) for i in range(points))
    live = tuple(int(60 * MIB * min(1.0, 2 * i / points)) for i in range(points))
    wait = WaitFigures(count=10, seconds=0.1, cpu=0.01)
    figures = ReplayFigures(
        events=EVENTS,
        seconds=1.0 * wobble,
        cpu=COSTS[variant] * EVENTS * 1e-9 * wobble,
        malloc_seconds=0.5 * COSTS[variant] * EVENTS * 1e-9,
        minor_faults=20_000,
        major_faults=0,
        engine_memory=3 * MIB,
        peak_heap=peak,
        peak_live=60 * MIB,
        end_heap=peak - 10 * MIB,
        end_live=30 * MIB,
        idle_heap=peak - 20 * MIB,
        failed=0,
        failed_size=0,
        lateness=0.0,
        clock=20,
        handover_waits=wait,
        window_waits=wait,
        operations=tuple(
            OperationFigures(
                operation=operation,
                largest=largest,
                calls=EVENTS // 8,
                sampled=1000,
                nanoseconds=120_000,
                buckets=((20, 500), (90, 480), (3000, 20)),
            )
            for operation in ("malloc", "free")
            for largest in (64, 1024, 32768, None)
        ),
        moments=(
            ReplayMoment(name="after the start", time=5 * 10**9, heap=peak // 2, live=20 * MIB),
            ReplayMoment(
                name="after oltp_read_write", time=19 * 10**9, heap=peak - MIB, live=50 * MIB
            ),
        ),
        curve=ReplayCurve(
            time=times,
            seconds=tuple(t / 1e9 for t in times),
            heap=tuple(max(2 * MIB, int(size * peak / (60 * MIB))) for size in live),
            live=live,
        ),
        live_curve=tuple(zip(times, live, strict=True)),
        threads=tuple(ThreadFigures(calls=(1, 0, 0, 0, 1, 0), live=0) for n in range(THREADS)),
    )
    return ReplayResult(figures=figures, fault=None, bindings={"malloc": "x.so"}, printed="")


def variant_row(name: str) -> VariantRow:
    """The row of table ``variant`` of a malloc."""
    return VariantRow(
        name=name,
        allocator=name,
        allocator_version="1",
        libraries=json.dumps([] if name == "glibc" else [f"/usr/lib/lib{name}.so.2"]),
        environment="{}",
        server="replay of mariadbd",
        server_version="0.1.0",
        engine="malloc",
        command=json.dumps(["dballoc_replay", "PLAN"]),
        pool_bytes=None,
        thp=None,
    )


def build_replays(
    directory: Path,
    blocks: int = 6,
    faulty: tuple[str, ...] = (),
    experiment: Experiment | None = None,
    **fact: Any,
) -> Path:
    """A whole campaign of replays in ``directory``; ``fact``: changes of :data:`REPLAY_FACTS`."""
    chosen = experiment or replay_experiment()
    directory.mkdir()
    replay = replace(REPLAY_FACTS, **fact)
    described = replace(
        facts(chosen, blocks, ["solo"]),
        kind="replay",
        replay=replay,
        margin=0.03,
        ending="planned",
        sysbench=None,
    )
    results = Results.create(directory, described, [variant_row(v.name) for v in chosen.variant])
    for block in range(1, blocks + 1):
        for slot in schedule.order_block(chosen, block):
            kept = fault() if slot.variant in faulty else record(slot, replay, replay.window)
            results.add_trial(slot, kept)
        results.add(block_row("solo", block))
    results.close()
    return directory


def record(
    slot: schedule.Slot, recorded: RecordedTrace, window: tuple[float, float] | None
) -> TrialRecord:
    """A replay's record, whose figures differ a little from block to block."""
    wobble = 1 + 0.002 * ((slot.block * 7 + slot.position * 3) % 5)
    blank = MeasuredTrial(started=1.0, ended=3.0)
    replayed = result(slot.variant, wobble)
    if len(recorded.marks) > 2 and replayed.figures:
        moments = tuple(
            ReplayMoment(
                name=mark.name,
                time=round(mark.t * 1e9),
                heap=50 * MIB + round(number * CREEPS[slot.variant] * wobble) + slot.block % 2,
                live=20 * MIB,
            )
            for number, mark in enumerate(recorded.marks)
        )
        replayed = replace(replayed, figures=replace(replayed.figures, moments=moments))
    return fill_record(TrialRecord(trial=blank), replayed, recorded, 1.0, window)


def make_trace_of_calls(
    calls: list[list[tuple[int, int, int]]], sizes: list[int], **facts: Any
) -> Trace:
    """A trace of threads with (time, object, freed)."""
    threads = tuple(
        ThreadEvents(
            number=n,
            name="",
            created_by=NONE,
            kind=np.array([1 if o != NONE else 5 for _, o, _ in rows], np.uint8),
            time=np.array([t for t, _, _ in rows], np.int64),
            completed=np.array([t for t, _, _ in rows], np.int64),
            object=np.array([o for _, o, _ in rows], np.int64),
            freed=np.array([f for _, _, f in rows], np.int64),
        )
        for n, rows in enumerate(calls)
    )
    nothing = np.zeros(len(sizes), np.int32)
    described = {
        "from_start": True, "dropped": 0, "ended_by": "exit", "program": "p", "allocator": "glibc",
        "page_size": 4096, "seconds": 1.0,
    } | facts  # fmt: skip
    return Trace(
        facts=RecordingFacts(**described),
        threads=threads,
        objects=Objects(
            size=np.array(sizes, np.uint64),
            alignment=nothing.astype(np.uint32),
            allocated_by=nothing,
            freed_by=nothing,
            touch=nothing - 1,
        ),
        touch_patterns=(),
        marks=tuple(Mark(time=10**9 * i, name=f"m{i}\x1b[31m", truth={}) for i in range(2)),
    )
