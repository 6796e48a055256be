"""A look at /proc: states of threads, arenas' mutexes, what perf's windows last; jemalloc's own
statistics.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.catalogue import waits as catalogue
from dballoc.profile.contention import perf_record, thread_states
from dballoc.profile.contention.jemalloc_mutexes import Mutex, parse_mutexes
from dballoc.profile.contention.thread_states import FAULT, RUNNING, ThreadStates
from dballoc.profile.contention.wait_rules import Rules
from dballoc.profile.contention.waits_below_malloc import split_waits

NAMES = {number: name for name, number in catalogue()["syscalls"]["x86_64"].items()}
ARENA = 0x7F0000000030


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("running\n", (RUNNING, 0)),
        ("-1 0x7ffd 0x7f00\n", (FAULT, 0)),
        ("202 0x7f0000000030 0x80 0x2 0x0 0x0 0x0 0x7ffe 0x7f01\n", ("futex", ARENA)),
        ("7 0x1 0x1 0xffffffff 0x0 0x0 0x0 0x7ffe 0x7f01\n", ("poll", 0)),
        ("9999 0x1\n", ("system call 9999", 0)),
        ("", (RUNNING, 0)),
    ],
)
def test_a_threads_state(text: str, state: tuple[str, int]) -> None:
    assert thread_states.parse_state(text, NAMES) == state


@given(
    st.text() | st.lists(st.sampled_from(["202", "7", "-1", "0x1f", "zz", "running"])).map(" ".join)
)
def test_no_text_is_a_surprise(text: str) -> None:
    name, _ = thread_states.parse_state(text, NAMES)
    assert name


def test_shares_of_the_threads_that_wait() -> None:
    seen = Counter(
        {
            ("futex", ARENA): 30,
            ("futex", 0x1234): 10,
            (FAULT, 0): 5,
            ("munmap", 0): 5,
            ("poll", 0): 50,
            (RUNNING, 0): 900,
        }
    )
    found = thread_states.make_profile(
        ThreadStates(counts=seen, sweeps=10, seconds=1.0, threads=100, source="syscall"),
        {ARENA},
        Rules(catalogue()),
        "t",
        0,
        {},
    )
    said = split_waits(found)
    assert not said.counted
    assert said.total.waited == pytest.approx(10)
    assert said.share(said.malloc["lock"]) == pytest.approx(0.3)
    assert {group: said.share(cost) for group, cost in said.elsewhere.items()} == pytest.approx(
        {"lock": 0.1, "memory": 0.1, "client": 0.5}
    )


@pytest.mark.parametrize(
    ("expected", "every"), [(0, 1), (900, 1), (1001, 2), (8000, 11), (16_000, 17), (100_000, 101)]
)
def test_every_which_switch_has_a_stack(expected: float, every: int) -> None:
    assert perf_record.compute_period(expected, 1000) == every


@pytest.mark.parametrize(
    ("number", "kibibytes"), [(1, 16384), (4, 16384), (6, 8192), (64, 1024), (5000, 256)]
)
def test_buffers_are_powers_of_two(number: int, kibibytes: int) -> None:
    assert perf_record.compute_buffer_size(number) == kibibytes << 10


HEADING = "   n_lock_ops (#/sec)  n_waiting (#/sec)  n_spin_acq (#/sec)  n_owner_switch (#/sec)  total_wait_ns (#/sec)  max_wait_ns  max_n_thds"
STATISTICS = f"""\
___ Begin jemalloc statistics ___
Allocated: 1, active: 2
{HEADING}
ctl   2 2 0 0 0 0 1 1 0 0 0 0
prof  7 7 1 1 0 0 1 1 500000 1 0 0
Merged arenas stats:
{HEADING}
large 20 2 3 0 4 0 1 1 2000000 1 1 2
base  9 2 0 0 0 0 1 1 0 0 0 0
bins: size ind n_lock_ops (#/sec) n_waiting (#/sec) n_spin_acq (#/sec) n_owner_switch (#/sec) total_wait_ns (#/sec) max_wait_ns max_n_thds
  8 0 5 5 1 1 2 2 0 0 1000000 9 0 0
      ---
 16 1 5 5 1 1 2 2 0 0 3000000 9 0 0
large: size ind allocated
arenas[0]:
{HEADING}
large 20 2 3 0 4 0 1 1 2000000 1 1 2
"""


def test_jemallocs_own_mutexes() -> None:
    found = parse_mutexes(STATISTICS.splitlines())
    assert found == [
        Mutex(name="bins", locked=10, waited=2, spun=4, seconds=0.004),
        Mutex(name="large", locked=20, waited=3, spun=4, seconds=0.002),
        Mutex(name="prof", locked=7, waited=1, spun=0, seconds=0.0005),
        Mutex(name="base", locked=9, waited=0, spun=0, seconds=0),
        Mutex(name="ctl", locked=2, waited=0, spun=0, seconds=0),
    ]


@given(st.lists(st.text() | st.sampled_from(STATISTICS.splitlines())))
def test_logs_of_any_kind(lines: list[str]) -> None:
    assert all(mutex.seconds >= 0 for mutex in parse_mutexes(lines))
