"""Switches with a stack stand for all: as many, and as long, whatever the lengths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.profile.contention.waits import LEAST_STACKS, Tally, scale_by_length

# Of one switch: its nanoseconds, and whether it has a stack.
SWITCHES = st.lists(st.tuples(st.integers(0, 2**40), st.booleans()), max_size=100)


def tally_by_length(switches: list[tuple[int, bool]]) -> tuple[dict[int, Tally], dict[int, Tally]]:
    """Return those with a stack, and all."""
    with_stack: dict[int, Tally] = {}
    ended: dict[int, Tally] = {}
    for nanoseconds, has_stack in switches:
        switch = Tally(1, nanoseconds / 1e9)
        ended.setdefault(nanoseconds.bit_length(), Tally()).add(switch)
        if has_stack:
            with_stack.setdefault(nanoseconds.bit_length(), Tally()).add(switch)
    return with_stack, ended


@given(switches=SWITCHES, lost=st.integers(0, 50))
def test_scaled_switches_are_as_many_and_as_long_as_all(
    switches: list[tuple[int, bool]], lost: int
) -> None:
    with_stack, ended = tally_by_length(switches)
    factors = scale_by_length(with_stack, ended, len(switches) + lost)
    assert with_stack.keys() <= factors.keys() or not with_stack
    if with_stack:
        count = sum(t.count * factors[length].count for length, t in with_stack.items())
        assert count == pytest.approx(len(switches) + lost)
    if any(tally.seconds for tally in with_stack.values()) and _each_group_has_time(with_stack):
        seconds = sum(t.seconds * factors[length].seconds for length, t in with_stack.items())
        assert seconds == pytest.approx(sum(tally.seconds for tally in ended.values()))


def _each_group_has_time(with_stack: dict[int, Tally]) -> bool:
    """A group whose switches with a stack all took no time cannot stand for seconds."""
    return with_stack.get(0, Tally()).count < LEAST_STACKS


def test_long_waits_do_not_change_what_short_ones_stand_for() -> None:
    """A hundred locks of a microsecond, one in ten with a stack; twenty long waits, most with."""
    switches = [(1000, i % 10 == 0) for i in range(100)]
    switches += [(10**9, i < 15) for i in range(20)]
    with_stack, ended = tally_by_length(switches)
    factors = scale_by_length(with_stack, ended, 120)
    lock, client = (length.bit_length() for length in (1000, 10**9))
    assert with_stack[lock].count * factors[lock].count == pytest.approx(100)
    assert with_stack[client].count * factors[client].count == pytest.approx(20)
    assert with_stack[client].seconds * factors[client].seconds == pytest.approx(20)


def test_nothing_stands_for_switches_without_a_stack() -> None:
    assert scale_by_length({}, {10: Tally(3, 1e-6)}, 3) == {}
    assert scale_by_length({}, {}, 0) == {}
