"""What is told of a trace, against a brute-force count of it."""

from typing import Any

import numpy as np
import pytest
from example_recordings import make_recording, simulate
from example_traces_of_recordings import brute_force_curve
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.trace.compilation.compile_recording import compile_recording
from dballoc.trace.figures.live_curve import compute_live_curve, find_highs, sample_curve
from dballoc.trace.figures.size_classes import (
    compute_lifetimes,
    compute_size_classes,
    compute_touched_share,
)
from dballoc.trace.figures.trace_summary import compute_handovers, summarise_trace
from dballoc.trace.model import EventKind, TouchSample

M, F = EventKind.MALLOC, EventKind.FREE


@given(
    seed=st.integers(0, 10**6), step=st.integers(0, 50), resolution=st.sampled_from([1, 100, 10**5])
)
@settings(max_examples=40)
def test_the_live_curve_is_exact(seed: int, step: int, resolution: int) -> None:
    trace = compile_recording(simulate(seed, calls=150, step=step).recording, resolution)
    expected, peak = brute_force_curve(trace)
    curve = compute_live_curve(trace)
    assert curve.peak_bytes == peak
    assert curve.time.tolist() == sorted(expected)
    rows = zip(curve.bytes.tolist(), curve.blocks.tolist(), strict=True)
    assert list(rows) == [expected[time] for time in sorted(expected)]
    _, highs = find_highs(curve, 7)
    assert highs.max() == peak
    classes = compute_size_classes(trace, curve.peak_time)
    assert sum(row.peak_bytes for row in classes) == peak
    assert sum(row.allocations for row in classes) == len(trace.objects.size)
    assert all(row.smallest <= row.largest for row in classes)
    assert sum(row.bytes for row in classes) == trace.objects.size.sum()


def test_a_curve_by_hand() -> None:
    trace = compile_recording(
        make_recording(
            [(M, 10, 10, 16, 0, 100), (M, 20, 20, 32, 0, 50), (F, 40, 40, 16, 0, 0)],
            [(F, 30, 30, 32, 0, 0)],
        )
    )
    curve = compute_live_curve(trace)
    assert curve.time.tolist() == [10, 20, 30, 40]
    assert curve.bytes.tolist() == [100, 150, 100, 0]
    assert curve.blocks.tolist() == [1, 2, 1, 0]
    assert (curve.peak_bytes, curve.peak_time) == (150, 20)
    assert sample_curve(curve, np.array([0, 10, 29, 99])).tolist() == [0, 100, 150, 0]
    ends, highs = find_highs(curve, 2)
    assert (ends.tolist(), highs.tolist()) == ([20, 41], [100, 150])
    handovers = compute_handovers(trace)
    assert (handovers.frees, handovers.foreign, handovers.bytes) == (2, 1, 50)
    assert [(p.allocated_by, p.freed_by, p.blocks) for p in handovers.pairs] == [(0, 1, 1)]
    lifetimes = compute_lifetimes(trace)
    assert (lifetimes.p50, lifetimes.longest, lifetimes.survivors) == (2e-8, 3e-8, 0)


@pytest.mark.parametrize(
    ("calls", "peak"),
    [
        # At 5 ns: a block is freed and another is born, by two threads.
        ([[(M, 1, 1, 16, 0, 100), (F, 5, 5, 16, 0, 0)], [(M, 5, 5, 32, 0, 70)]], 100),
        ([[(M, 1, 1, 16, 0, 100), (F, 5, 5, 16, 0, 0)], [(M, 5, 5, 32, 0, 170)]], 170),
        # A realloc with both stamps equal.
        ([[(M, 1, 1, 16, 0, 100), (EventKind.REALLOC, 5, 5, 32, 16, 130)]], 130),
        # A block that is born and freed at one time is alive within it.
        ([[(M, 1, 1, 16, 0, 100), (M, 5, 5, 32, 0, 30), (F, 5, 5, 32, 0, 0)]], 130),
    ],
)
def test_at_equal_times_the_free_comes_first(calls: list[list[Any]], peak: int) -> None:
    trace = compile_recording(make_recording(*calls), 1)
    curve = compute_live_curve(trace)
    assert curve.peak_bytes == peak
    assert find_highs(curve, 3)[1].max() == peak
    assert sum(row.peak_bytes for row in compute_size_classes(trace, curve.peak_time)) == peak


@pytest.mark.parametrize("seed", range(3))
def test_blocks_that_change_threads(seed: int) -> None:
    simulation = simulate(seed, threads=4, calls=400)
    handovers = compute_handovers(compile_recording(simulation.recording))
    assert handovers.frees == len(simulation.freed_by)
    assert handovers.foreign == sum(owner != by for (owner, _), by in simulation.freed_by.items())
    assert sum(pair.blocks for pair in handovers.pairs) == handovers.foreign
    counts = [pair.blocks for pair in handovers.pairs]
    assert counts == sorted(counts, reverse=True)


def test_size_classes_are_powers_of_two() -> None:
    sizes = [0, 1, 2, 3, 4, 5, 1024, 1025]
    rows = [(M, i, i, 16 * (i + 1), 0, size) for i, size in enumerate(sizes)]
    classes = compute_size_classes(compile_recording(make_recording(rows), 1), 99)
    assert [(c.smallest, c.largest, c.allocations) for c in classes] == [
        (0, 1, 2),
        (2, 2, 1),
        (3, 4, 2),
        (5, 8, 1),
        (513, 1024, 1),
        (1025, 2048, 1),
    ]
    assert all(c.lifetime_p50 is None for c in classes)


def test_what_is_touched_of_large_blocks() -> None:
    rows = [(M, 1, 1, 16, 0, 100), (M, 2, 2, 2**20, 0, 65536, 0, 7)]
    recording = make_recording(rows, touches=(TouchSample(size=65536, site=7, runs=((0, 4),)),))
    share = compute_touched_share(compile_recording(recording))
    assert (share.blocks, share.bytes, share.touched) == (1, 65536, 4 * 4096)


def test_a_trace_of_nothing_has_figures() -> None:
    summary = summarise_trace(compile_recording(make_recording([])))
    assert (summary.events, summary.seconds, summary.sizes) == (0, 0.0, ())
    assert summary.lifetimes.p50 is None
    assert compute_handovers(compile_recording(make_recording())).pairs == ()
