"""Idle and stolen time of CPUs."""

import pytest

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
