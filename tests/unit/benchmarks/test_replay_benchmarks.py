"""The benchmarks of the recorder and of replays say by their exit status what was not kept."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from example_ratios import make_metric, make_ratio

from dballoc.questions.compare.baseline_comparison import Comparison, Comparisons
from dballoc.questions.compare.measures import Metric
from dballoc.trace.recording.read_recording import RecordingCondition

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import probe
import replay_fidelity
import replay_verdict
import trace_recorder
from trace_recorder import ServerRecording

HEAP = make_metric("rss_peak", is_replay=True)
SPEED = make_metric("cpu:x", is_replay=True)


def make_comparison(variant: str, metric: Metric, low: float, high: float) -> Comparison:
    return Comparison(variant, metric, make_ratio(low, high, blocks=3))


def test_mallocs_whose_heap_is_undecided_are_named() -> None:
    family = [
        make_comparison("jemalloc", HEAP, 0.8, 0.9),
        make_comparison("scudo", HEAP, 0.9, 1.1),
        make_comparison("mimalloc", HEAP, 1.2, 1.3),
        make_comparison("tcmalloc", HEAP, 0.998, 1.002),
        make_comparison("tbbmalloc", HEAP, 1.1, 1.2),
        make_comparison("late", SPEED, 1.1, 1.2),
    ]
    faulty = {"tbbmalloc": (1, 3)}
    comparisons = Comparisons(procedures={}, metrics=[], family=family, floor=[], faulty=faulty)
    assert replay_verdict.list_undecided(comparisons) == ["late", "scudo", "tbbmalloc"]


def make_condition(dropped: int = 0, ended_by: str = "exit") -> RecordingCondition:
    return RecordingCondition(
        chunks=9, bytes=1, events=200_000, dropped=dropped, ended_by=ended_by, complaint=""
    )


GOOD = ServerRecording(condition=make_condition(), size=1_240_000)
LOST = ServerRecording(condition=make_condition(dropped=1), size=1_240_000)
CUT = ServerRecording(condition=make_condition(ended_by="limit"), size=1_240_000)
LONG = ServerRecording(condition=make_condition(), size=1_640_000)


@pytest.mark.parametrize(
    ("recordings", "status"),
    [([GOOD, GOOD], 0), ([GOOD, LOST], 1), ([CUT], 1), ([LONG], 1), ([], 1)],
    ids=["kept", "lost", "cut", "long", "none"],
)
def test_lost_events_break_the_promise(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    recordings: list[ServerRecording],
    status: int,
) -> None:
    seconds = []

    def run(_out: Path, table: dict[str, Any], *_: str) -> object:
        seconds.append((table["threads"], table["time"]["level"]))
        return SimpleNamespace(good=pl.DataFrame({"rss_peak": [300 * 2**20, 310 * 2**20]}))

    monkeypatch.setattr(trace_recorder, "run", run)
    monkeypatch.setattr(trace_recorder, "read_server_recordings", lambda _: recordings)
    monkeypatch.setattr(sys, "argv", ["trace_recorder.py", "drops", "--out", str(tmp_path)])
    assert trace_recorder.main() == status
    assert seconds == [([64], "600s"), ([256], "60s")]
    printed = capsys.readouterr().out
    assert "64 clients, 600 s: RSS of at most 300, 310 MiB" in printed
    assert ("BROKEN" in printed) == bool(status)


@pytest.mark.parametrize(("ns", "size", "status"), [(18.0, 6.2, 0), (25.0, 6.2, 1), (18.0, 9.0, 1)])
def test_costly_calls_break_the_promise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ns: float, size: float, status: int
) -> None:
    def run_calls(_program: Path, way: str, _pairs: int, _threads: int) -> dict[str, float]:
        more = {"recording": ns, "idle": 0.3, "without": 0.0}[way]
        figures = {"ns": 20 + more, "all ns": 20 + more, "MiB": 10.0}
        return figures | ({"bytes": size, "dropped": 0} if way == "recording" else {})

    monkeypatch.setattr(trace_recorder, "run_calls", run_calls)
    monkeypatch.setattr(trace_recorder.subprocess, "run", lambda *_, **__: None)
    argv = ["trace_recorder.py", "calls", "--rounds", "3", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", argv)
    assert trace_recorder.main() == status


@pytest.mark.parametrize(
    ("family", "is_broken"),
    [
        ([make_comparison("recorded", SPEED, 1.01, 1.02)], False),
        ([make_comparison("recorded", SPEED, 1.02, 1.05)], False),
        ([make_comparison("recorded", SPEED, 1.04, 1.05)], True),
        ([], True),
    ],
    ids=["kept", "undecided", "broken", "not measured"],
)
def test_a_servers_cost_breaks_the_promise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, family: list[Comparison], is_broken: bool
) -> None:
    found = SimpleNamespace(floor=[], family=family)
    monkeypatch.setattr(probe, "run", lambda *_: None)
    monkeypatch.setattr(probe, "compare_with_baseline", lambda _: found)
    args: Any = SimpleNamespace(
        use="mariadb", engine="innodb", workload="oltp_read_only", threads=4, blocks=8
    )
    variants = [{"name": "glibc"}, {"name": "recorded"}]
    assert probe.measure(tmp_path, "server", variants, {"recorded": 1.03}, args) == is_broken


def test_a_malloc_that_was_not_compared_is_a_miss() -> None:
    def make_cell(allocator: str, starts: int) -> replay_fidelity.Cell:
        peaks = (1e8,) * starts
        return replay_fidelity.Cell(
            server="MySQL InnoDB", allocator=allocator, real=peaks, replayed=(1e8,), timed=(),
            control=(),
        )  # fmt: skip

    cells = [make_cell(name, 2) for name in replay_fidelity.ALLOCATORS]
    assert replay_fidelity.list_lacking(["mysql"], cells) == []
    assert replay_fidelity.list_lacking(["mysql"], [*cells[:4], make_cell("tbbmalloc", 1)]) == [
        "tbbmalloc under MySQL InnoDB"
    ]
    assert len(replay_fidelity.list_lacking(["mysql", "myrocks"], cells)) == 5
