"""What sysbench and our hook write, read while it is being written."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.load.client_output import Follower, IntervalReport, parse_histogram, percentile, reason

# sysbench 1.0.20, oltp_read_only, 2 threads (shortened).
PRINTED = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.787 |                                         3
       0.802 |**                                       41
       1.618 |**************************************** 956
      12.300 |                                         0

SQL statistics:
    queries performed:
        read:                            14000
    transactions:                        1000   (499.84 per sec.)
"""


def record(kind: str = "interval", **changes: float) -> str:
    """One line of the hook."""
    fields = {
        "kind": kind,
        "clock": 100.5,
        "threads_running": 2,
        "time_interval": 1.0,
        "time_total": 3.0,
        "latency_pct": 0.002,
        "events": 500,
        "reads": 7000,
        "writes": 10,
        "other": 1000,
        "errors": 1,
        "reconnects": 2,
        "latency_min": 0.001,
        "latency_avg": 0.0015,
        "latency_max": 0.03,
    }
    return json.dumps(fields | changes) + "\n"


def test_the_histogram() -> None:
    assert parse_histogram(PRINTED) == [(0.787, 3), (0.802, 41), (1.618, 956), (12.3, 0)]
    assert parse_histogram("no such thing\n 1.0 |* 5\n") == []


def test_buckets_that_print_alike_are_one() -> None:
    printed = "Latency histogram (values are in milliseconds)\n  0.031 |*  3\n  0.031 |**  4\n  0.032 |*  1\n"
    assert parse_histogram(printed) == [(0.031, 7), (0.032, 1)]


@pytest.mark.parametrize(
    ("share", "ms"),
    [(0.001, 0.787), (0.003, 0.787), (0.0031, 0.802), (0.044, 0.802), (0.5, 1.618), (1.0, 1.618)],
)
def test_percentiles(share: float, ms: float) -> None:
    assert percentile(parse_histogram(PRINTED), share) == ms


def test_no_events_have_no_percentile() -> None:
    assert percentile([], 0.5) is None
    assert percentile([(1.0, 0)], 0.5) is None


@given(
    st.lists(st.integers(min_value=0, max_value=50), min_size=1, max_size=30).filter(any),
    st.floats(min_value=0.01, max_value=1),
)
def test_a_percentile_has_its_share_below_it(counts: list[int], share: float) -> None:
    histogram = [(float(i), count) for i, count in enumerate(counts)]
    found = percentile(histogram, share)
    assert found is not None
    total = sum(counts)
    assert sum(count for ms, count in histogram if ms <= found) >= share * total
    assert sum(count for ms, count in histogram if ms < found) < share * total


def test_intervals_and_the_total(tmp_path: Path) -> None:
    path = tmp_path / "intervals.jsonl"
    path.write_text(record() + record(kind="total", events=1500))
    follower = Follower(path)
    assert list(follower.new()) == [
        IntervalReport(
            clock=100.5,
            elapsed=3.0,
            seconds=1.0,
            threads=2,
            events=500,
            queries=8010,
            latency=0.002,
            errors=1,
            reconnects=2,
        )
    ]
    assert follower.total is not None
    assert (follower.total.events, follower.total.seconds, follower.total.latency_max) == (
        1500,
        3.0,
        0.03,
    )


def test_rates_are_per_second_of_the_interval() -> None:
    interval = IntervalReport(
        clock=1.0,
        elapsed=1.0,
        seconds=0.5,
        threads=2,
        events=500,
        queries=8000,
        latency=0.002,
        errors=0,
        reconnects=0,
    )
    assert (interval.tps, interval.qps) == (1000, 16000)


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "later.jsonl")
    assert list(follower.new()) == []
    follower.path.write_text(record())
    assert len(list(follower.new())) == 1


@given(
    st.integers(min_value=1, max_value=5),
    st.lists(st.integers(min_value=1, max_value=200), max_size=12),
)
def test_torn_lines_are_read_once_and_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: int, cuts: list[int]
) -> None:
    """However the writer's bytes arrive, every line comes exactly once, in order."""
    text = "".join(record(events=i, clock=100.5 + i) for i in range(lines)).encode()
    path = tmp_path_factory.mktemp("torn") / "intervals.jsonl"
    path.touch()
    follower, seen = Follower(path), []
    for cut in [*cuts, len(text)]:
        piece, text = text[:cut], text[cut:]
        with path.open("ab") as f:
            f.write(piece)
        seen += [i.events for i in follower.new()]
    assert seen == list(range(lines))


@pytest.mark.parametrize(
    "line", ["{\n", "[]\n", "7\n", record().replace("reads", "rea"), record().replace("500", '"x"')]
)
def test_what_two_threads_wrote_at_once_is_left_out(tmp_path: Path, line: str) -> None:
    path = tmp_path / "intervals.jsonl"
    path.write_text(
        record(clock=1) + line + record(clock=2) + record(clock=2) + record(kind="total", events=9)
    )
    follower = Follower(path)
    assert [i.clock for i in follower.new()] == [1, 2]
    assert follower.total is not None


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (
            "Running\nFATAL: error 1114: The table is full\nFATAL: thread ended\nbye\n",
            "FATAL: thread ended",
        ),
        ("something\nlast line\n\n", "last line"),
        ("", "it printed nothing"),
    ],
)
def test_why_sysbench_ended(printed: str, why: str) -> None:
    assert reason(printed) == why
