"""Idle and stolen time of CPUs."""

import pytest
from example_cpu_trees import MACHINES, format_stat, list_cpus
from hypothesis import given
from hypothesis import strategies as st

from dballoc.instruments.host_sampler import CpuTime, compute_shares, parse_cpu_time

STAT = """\
cpu  10 0 10 500 20 0 0 70 0 0
cpu0 5 0 5 200 10 0 0 30 0 0
cpu1 5 0 5 300 10 0 0 40 0 0
intr 1 2 3
"""


def test_a_reading() -> None:
    assert parse_cpu_time(STAT, 100) == {0: CpuTime(2.1, 0.3), 1: CpuTime(3.1, 0.4)}


def test_shares_are_of_the_cpus_asked_for() -> None:
    before = parse_cpu_time(STAT, 100)
    after = {0: CpuTime(2.6, 0.4), 1: CpuTime(3.1, 0.9)}
    assert compute_shares(before, after, [0], 1.0) == pytest.approx((0.5, 0.1))
    assert compute_shares(before, after, [0, 1], 1.0) == pytest.approx((0.25, 0.3))
    # A clock tick may be longer than the time between two readings.
    assert compute_shares(before, after, [1], 0.1) == (0.0, 1.0)


@pytest.mark.parametrize("name", MACHINES)
def test_every_cpu_of_a_large_machine_has_its_line(name: str) -> None:
    cpus = list_cpus(MACHINES[name])
    before, after = (parse_cpu_time(format_stat(cpus, idle), 100) for idle in (100, 150))
    assert before.keys() == after.keys() == cpus
    assert compute_shares(before, after, cpus, 1.0) == pytest.approx((0.5, 0.0))


def test_cpus_without_a_line_are_not_known() -> None:
    """Offline ones have none, and in a container they may have other numbers: 8 to 15 are 0 to 7.
    Before, a share of the time was told in which none was idle.
    """
    before, after = (parse_cpu_time(format_stat(range(8), idle), 100) for idle in (100, 150))
    assert compute_shares(before, after, range(8, 16), 1.0) is None
    assert compute_shares(before, after, range(4, 12), 1.0) is None
    assert compute_shares(before, after, range(4, 8), 1.0) == pytest.approx((0.5, 0.0))


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(0 <= cpu < 100_000 for cpu in parse_cpu_time(f"cpu0 {text}\n{text}", 100))
