"""From samples and intervals to a step's row."""

import time
from dataclasses import fields, replace

import pytest
from example_steps import IDLE, gathered, interval, sample
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.trial.trial_rows import (
    STEP_COUNTERS,
    find_counter_window,
    interpolate_counter,
    make_step_row,
)
from dballoc.host.process.handle import Process
from dballoc.instruments.process_sampler import ProcessSampler
from dballoc.load.client_output import Total
from dballoc.store.rows import StepRow


def test_what_a_step_counts_is_sampled_and_stored() -> None:
    sampler = ProcessSampler(Process.own())
    try:
        first, last = sampler.sample(), replace(sampler.sample(), clock=time.monotonic() + 1)
    finally:
        sampler.close()
    assert set(STEP_COUNTERS) <= {field.name for field in fields(StepRow)}
    row = make_step_row(gathered(IDLE, samples=(first, last)), 0)
    assert [name for name in STEP_COUNTERS if getattr(row, name) is None] == []


@pytest.mark.parametrize(
    ("clock", "cpu"),
    [(10.0, 0.0), (11.0, 2.0), (12.0, 4.0), (13.0, 5.0), (15.0, 7.0), (9.0, 0.0), (99.0, 7.0)],
)
def test_a_counter_between_samples_is_interpolated(clock: float, cpu: float) -> None:
    assert interpolate_counter(gathered().samples, clock, "cpu") == pytest.approx(cpu)


@given(
    st.lists(st.integers(min_value=0, max_value=1000), min_size=2, max_size=10),
    st.floats(min_value=-1, max_value=12),
)
def test_interpolation_stays_between_its_neighbours(steps: list[int], clock: float) -> None:
    counts = [sum(steps[: i + 1]) for i in range(len(steps))]
    samples = [sample(float(i), float(count)) for i, count in enumerate(counts)]
    assert counts[0] <= interpolate_counter(samples, clock, "cpu") <= counts[-1]
    assert (
        interpolate_counter(samples, clock, "cpu")
        <= interpolate_counter(samples, clock + 0.5, "cpu") + 1e-9
    )


def test_the_window_leaves_connecting_out() -> None:
    found = gathered(intervals=(interval(11.0, 999), interval(12.0, 100), interval(13.0, 120)))
    assert find_counter_window(found) == (11.0, 13.0, 220)


def test_a_single_report_counts_from_the_start() -> None:
    assert find_counter_window(gathered(intervals=(interval(12.0, 100),))) == (10.0, 12.0, 100)


def test_no_load_has_no_window() -> None:
    assert find_counter_window(gathered(IDLE)) is None


def test_the_row_of_a_level() -> None:
    total = Total(
        clock=15.0,
        seconds=4.0,
        events=400,
        queries=6400,
        latency_min=0.001,
        latency_avg=0.002,
        latency_max=0.05,
        errors=1,
        reconnects=2,
    )
    row = make_step_row(
        gathered(
            intervals=(interval(12.0, 100), interval(13.0, 110)),
            total=total,
            histogram=[(1.0, 90), (2.0, 9), (9.0, 1)],
        ),
        t0=8.0,
    )
    assert {
        k: getattr(row, k) for k in ("step", "kind", "workload", "threads", "t", "seconds")
    } == {
        "step": 3,
        "kind": "level",
        "workload": "oltp_read_only",
        "threads": 8,
        "t": 2.0,
        "seconds": 5.0,
    }
    assert (row.events, row.tps, row.qps, row.errors, row.reconnects) == (
        400,
        100,
        1600,
        1,
        2,
    )
    assert (row.latency_min, row.latency_avg, row.latency_max) == (1.0, 2.0, 50.0)
    assert (row.p50, row.p95, row.p99, row.p999) == (1.0, 2.0, 2.0, 9.0)
    # Between the reports at 12 and 13: cpu from 4 to 5, switches from 50 to 60.
    assert (row.window, row.window_events, row.cpu, row.voluntary) == (
        1.0,
        110,
        pytest.approx(1.0),
        pytest.approx(10),
    )
    assert (row.rss_start, row.rss_mean, row.rss_peak, row.rss_end) == (
        100,
        200,
        310,
        200,
    )


def test_the_row_of_an_idle_step_covers_all_of_it() -> None:
    row = make_step_row(gathered(IDLE), t0=0.0)
    assert (row.window, row.window_events, row.cpu, row.tps, row.workload) == (
        5.0,
        None,
        7.0,
        None,
        None,
    )


def test_a_counter_that_a_sample_lacks_is_none() -> None:
    first, last = (replace(sample(t), written=int(t) * 10) for t in (10.0, 15.0))
    assert make_step_row(gathered(IDLE, samples=(first, last)), 0).written == 50
    lacking = first, replace(last, written=None)
    assert make_step_row(gathered(IDLE, samples=lacking), 0).written is None
