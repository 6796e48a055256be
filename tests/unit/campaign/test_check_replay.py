"""A replay is compared with its trace: each thread's calls, and what was alive over its time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_replays import result

from dballoc.campaign.replay.check_replay import ExpectedReplay, expect_replay, find_difference
from dballoc.trace.model import NONE, EventKind, Objects, ThreadEvents, Trace
from dballoc.trace.replay.plan_file import write_plan
from dballoc.trace.replay.replay_result import ReplayFigures, ThreadFigures
from example_traces import make_trace


def make_dense_trace(events: int) -> Trace:
    """One thread that takes and frees blocks of one byte in turn, at as many moments."""
    place = np.arange(events)
    allocates = place % 2 == 0
    thread = ThreadEvents(
        number=0,
        name="",
        created_by=NONE,
        kind=np.where(allocates, EventKind.MALLOC, EventKind.FREE).astype(np.uint8),
        time=place * 10,
        completed=place * 10,
        object=np.where(allocates, place // 2, NONE),
        freed=np.where(allocates, NONE, place // 2),
    )
    blocks = np.zeros(events // 2, np.int32)
    objects = Objects(
        size=blocks.astype(np.uint64) + 1,
        alignment=blocks.astype(np.uint32),
        allocated_by=blocks,
        freed_by=blocks,
        touch=blocks - 1,
    )
    return replace(make_trace(1, 1, 1), threads=(thread,), objects=objects, marks=())


def replay_exactly(expected: ExpectedReplay) -> ReplayFigures:
    """What a replay measures that did just that."""
    figures = result("glibc").figures
    assert figures
    return replace(
        figures,
        threads=tuple(ThreadFigures(calls=t.calls, live=t.live) for t in expected.totals),
        live_curve=expected.live_curve,
    )


def sum_live_before(trace: Trace, moment: int) -> int:
    """The bytes alive before that moment, event by event."""
    live = 0
    for thread in trace.threads:
        for time, born, freed in zip(thread.completed, thread.object, thread.freed, strict=True):
            if time < moment:
                live += int(trace.objects.size[born]) if born != NONE else 0
                live -= int(trace.objects.size[freed]) if freed != NONE else 0
    return live


@pytest.mark.parametrize("step", [100, 2000, 10_000_000])
def test_what_has_to_be_alive(step: int, tmp_path: Path) -> None:
    trace = make_trace(4, 2000, 9, step=step)
    plan = write_plan(trace, tmp_path / "plan")
    expected = expect_replay(trace, plan)
    times = [time for time, _ in expected.live_curve]
    assert len(times) <= 2000
    assert times == sorted(set(times))
    assert times[-1] > plan.duration
    for time, live in expected.live_curve[:: len(times) // 7 + 1]:
        assert live == sum_live_before(trace, time)
    assert expected.live_curve[-1][1] == sum(total.live for total in expected.totals)
    assert find_difference(replay_exactly(expected), expected) is None


def test_the_live_bytes_of_a_long_trace_are_compared_too(tmp_path: Path) -> None:
    trace = make_dense_trace(2_100_000)
    expected = expect_replay(trace, write_plan(trace, tmp_path / "plan"))
    figures = replay_exactly(expected)
    assert find_difference(figures, expected) is None
    curve = [*expected.live_curve]
    time, live = curve[200]
    curve[200] = (time, live + 1)
    difference = find_difference(replace(figures, live_curve=tuple(curve)), expected)
    assert (
        difference == f"{live + 1} live bytes at {time / 1e9:.3f} s of the trace instead of {live}"
    )
    missing = replace(figures, live_curve=())
    assert "live bytes at 0 moments" in (find_difference(missing, expected) or "")
    # A malloc that had no memory differs for that reason.
    assert find_difference(replace(missing, failed=1), expected) is None
