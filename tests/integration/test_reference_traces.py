"""Traces of real servers, a second or two each: read, looked into, cut, and replayed exactly."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.allocators.find_library import find_allocator
from dballoc.campaign.replay.check_replay import ExpectedReplay, expect_replay, find_difference
from dballoc.host.guardian.guardian_client import Custody
from dballoc.trace.changes.compose_traces import Stretch, compose_traces
from dballoc.trace.changes.cut_trace import cut_trace
from dballoc.trace.changes.trace_parts import get_duration
from dballoc.trace.figures.trace_summary import summarise_trace
from dballoc.trace.model import Trace
from dballoc.trace.replay.plan_file import write_plan
from dballoc.trace.replay.replay_result import ReplayFigures
from dballoc.trace.replay.replay_settings import ReplaySettings
from dballoc.trace.replay.run_replay import run_replay
from dballoc.trace.trace_file.read_trace import read_trace

TRACES = sorted((Path(__file__).parents[1] / "data" / "traces").glob("*.trace"))
MIB = 2**20

Replay = Callable[[Trace], tuple[ReplayFigures, ExpectedReplay]]


@pytest.fixture(params=TRACES, ids=lambda path: path.stem)
def trace(request: pytest.FixtureRequest) -> Trace:
    assert request.param.stat().st_size <= 3 * MIB
    return read_trace(request.param)


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    def run(trace: Trace) -> tuple[ReplayFigures, ExpectedReplay]:
        plan = write_plan(trace, tmp_path / "plan")
        with Custody() as custody:
            result = run_replay(
                plan, find_allocator("glibc"), ReplaySettings(), custody=custody, scratch=tmp_path
            )
        assert result.fault is None, result.fault
        assert result.figures
        return result.figures, expect_replay(trace, plan)

    return run


def test_there_is_one_of_each_server() -> None:
    assert [path.stem for path in TRACES] == ["mariadb-innodb", "mariadb-myrocks", "mysql-8.0"]


def test_it_is_replayed_to_the_byte(trace: Trace, replay: Replay) -> None:
    figures, expected = replay(trace)
    assert find_difference(figures, expected) is None
    assert figures.peak_heap > 10 * MIB


def test_it_names_nobody_and_lacks_nothing(trace: Trace) -> None:
    assert trace.facts.program == ""
    assert not any(thread.name for thread in trace.threads)
    assert trace.facts.dropped == 0
    summary = summarise_trace(trace)
    assert summary.events > 50_000
    assert summary.handovers.frees > 10_000


def test_days_of_it_are_replayed_to_the_byte(trace: Trace, replay: Replay) -> None:
    middle = get_duration(trace) // 2
    stretch = Stretch(name="load", trace=cut_trace(trace, middle, middle + 10**8))
    days = compose_traces([stretch], "free", days=6)
    figures, expected = replay(days)
    assert find_difference(figures, expected) is None
    assert [m.name for m in figures.moments] == [mark.name for mark in days.marks]
