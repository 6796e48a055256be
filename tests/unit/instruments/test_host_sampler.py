"""The whole host's counters: from the text of /proc/stat, and over a step's window."""

import pytest
from example_steps import IDLE, gathered, interval
from hypothesis import given
from hypothesis import strategies as st

from dballoc.campaign.trial.trial_rows import make_host_sample_row, make_host_step_rows
from dballoc.instruments.host_sampler import HostSample, parse_host_sample, take_host_sample
from dballoc.store.rows import HostStepRow

STAT = """cpu  1000 200 300 4000 50 10 20 70 500 60
cpu0 1 2 3 4 5 6 7 8 9 10
intr 1 2 3
ctxt 123456
btime 1700000000
"""


def test_a_reading_of_proc_stat() -> None:
    sample = parse_host_sample(STAT, 100, 7.5)
    # guest and guest_nice (500, 60) are in user and nice already.
    assert sample == HostSample(
        clock=7.5,
        user=pytest.approx(12.0),
        system=pytest.approx(3.3),
        idle=pytest.approx(40.0),
        iowait=pytest.approx(0.5),
        steal=pytest.approx(0.7),
        switches=123456,
    )
    assert sample.busy == pytest.approx(15.3)
    assert sample.total == pytest.approx(56.5)


@pytest.mark.parametrize(
    "line",
    [
        "RES:    1374578    1753910   Rescheduling interrupts",
        " IPI0:    1374578    1753910       Rescheduling interrupts",
    ],
)
def test_interrupts_by_which_one_cpu_wakes_another(line: str) -> None:
    text = f"           CPU0       CPU1\n  0:   1  2  edge\nCAL: 5 6 Function call interrupts\n{line}\n"
    assert parse_host_sample(STAT, 100, 0, text).reschedules == 1374578 + 1753910
    assert parse_host_sample(STAT, 100, 0, text.replace("Resch", "Other")).reschedules is None


def test_a_host_that_does_not_count_its_switches() -> None:
    assert parse_host_sample(STAT.replace("ctxt", "other"), 100, 0).switches == 0


@given(st.lists(st.integers(0, 2**60), min_size=8, max_size=10), st.integers(0, 2**60))
def test_the_parts_are_the_whole(ticks: list[int], switches: int) -> None:
    text = f"cpu  {' '.join(map(str, ticks))}\ncpu0 0 0\nctxt {switches}\n"
    sample = parse_host_sample(text, 1, 0)
    assert sample.total == pytest.approx(sum(ticks[:8]))
    assert sample.switches == switches


def test_the_real_proc_stat_moves_forward() -> None:
    first, second = take_host_sample(), take_host_sample()
    assert second.total >= first.total > 0
    assert second.clock > first.clock
    assert second.switches >= first.switches > 0


def host(clock: float, busy: float) -> HostSample:
    return HostSample(
        clock=clock,
        user=1000 + 0.7 * busy,
        system=100 + 0.3 * busy,
        idle=5000 + clock,
        iowait=0.0,
        steal=3.0,
        switches=round(10_000 + 100 * busy),
        own_cpu=5.0 + 0.01 * busy,
    )


def test_a_level_counts_the_host_between_its_first_and_last_report() -> None:
    measured = gathered(
        intervals=(interval(12.0, 100), interval(14.0, 110)),
        host=(host(10.0, 0.0), host(11.0, 1.0), host(13.0, 3.0), host(15.0, 7.0)),
    )
    [row] = make_host_step_rows(measured)
    # Busy from 2 at 12 s to 5 at 14 s.
    assert row == HostStepRow(
        step=3,
        seconds=2.0,
        own_cpu=pytest.approx(0.03),
        user=pytest.approx(2.1),
        system=pytest.approx(0.9),
        idle=pytest.approx(2.0),
        iowait=0.0,
        steal=0.0,
        switches=pytest.approx(300),
    )


def test_a_step_without_load_counts_the_host_from_end_to_end() -> None:
    [row] = make_host_step_rows(gathered(IDLE, host=(host(10.0, 0.0), host(15.0, 2.0))))
    assert row.user == pytest.approx(1.4)
    assert make_host_step_rows(gathered(IDLE)) == []


def test_the_row_of_a_sample() -> None:
    row = make_host_sample_row(4, host(12.5, 1.0), t0=2.0)
    assert (row.step, row.t, row.switches) == (4, 10.5, 10_100)
