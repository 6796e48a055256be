"""The search for the largest size that survives: it finds it, in few trials, whatever the machine
does on the way.
"""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.experiment.cache_size_search import (
    MOST_FAULTS,
    SearchState,
    SizeRange,
    Trial,
    compute_state,
    count_trials_at_most,
)

MIB = 2**20


def play(of: SizeRange, server, most: int = 500) -> tuple[list[Trial], SearchState]:
    """Try what the search asks for until it is over. ``server(size)`` gives an outcome and
    a peak.
    """
    trials: list[Trial] = []
    while (now := compute_state(of, trials)).next is not None:
        assert len(trials) < most, "it does not end"
        trials.append(Trial(now.next, *server(now.next)))
    return trials, now


def steady(limit: float, beside: int, slope: float = 1.0):
    """A server that takes ``beside`` and so much a byte of cache, and is killed above ``limit``."""

    def server(size: int):
        need = int(beside + slope * size)
        return ("survived", need) if need <= limit else ("killed", int(limit))

    return server


ranges = st.builds(
    lambda memory, steps, start, repeats, is_near: SizeRange(
        memory=memory * MIB,
        tolerance=max(1, memory // steps) * MIB,
        start=int(start * memory) * MIB,
        repeats=repeats,
        is_near=is_near,
    ),
    st.integers(64, 1 << 16),
    st.integers(1, 200),
    st.floats(0, 1.2),
    st.integers(1, 5),
    st.booleans(),
)


@given(ranges, st.integers(0, 1 << 14), st.floats(0.3, 3.0))
def test_a_server_that_always_does_the_same_is_found_out_exactly(
    of: SizeRange, beside: int, slope: float
) -> None:
    server = steady(of.memory, beside * MIB, slope)
    trials, now = play(of, server)
    sizes = [n * of.tolerance for n in range(1, of.steps + 1)]
    surviving = [s for s in sizes if server(s)[0] == "survived"]
    assert now.low == max(surviving, default=0)
    assert now.high == min((s for s in sizes if s not in surviving), default=None)
    assert now.why == (
        "none" if not surviving else "all" if len(surviving) == len(sizes) else "found"
    )
    assert len(trials) <= 3 * math.ceil(math.log2(of.steps + 1)) + of.repeats + 3 * of.is_near
    # The repeats are spent on the answer alone.
    again = [t.size for t in trials if sum(1 for u in trials if u.size == t.size) > 1]
    assert set(again) <= {now.low}


@given(ranges, st.integers(0, 1 << 14), st.integers(0, 2**32))
def test_what_is_left_never_takes_longer_than_it_says(
    of: SizeRange, beside: int, seed: int
) -> None:
    server = steady(of.memory, beside * MIB)
    trials: list[Trial] = []
    promised = math.inf
    while (now := compute_state(of, trials)).next is not None:
        assert count_trials_at_most(of, trials) >= 1
        promised = min(promised, len(trials) + count_trials_at_most(of, trials))
        trials.append(Trial(now.next, *server(now.next)))
    assert count_trials_at_most(of, trials) == 0
    assert len(trials) <= promised


@given(ranges, st.floats(0, 1), st.floats(0, 0.3), st.integers(0, 2**32))
def test_luck_near_the_edge(of: SizeRange, edge: float, width: float, seed: int) -> None:
    """Near the edge a size now survives and now does not: the answer survived every trial that it
    had, and enough of them.
    """
    draw = random.Random(seed)

    def server(size: int):
        chance = 0.5 + (edge - size / of.memory) / (width + 1e-9)
        return ("survived", size) if draw.random() < chance else ("killed", of.memory)

    trials, now = play(of, server)
    mine = [t.outcome for t in trials if t.size == now.low]
    if now.low:
        assert mine.count("survived") >= of.repeats
        assert "killed" not in mine
    if now.high is not None:
        assert now.high - now.low == of.tolerance
        assert any(t.outcome == "killed" for t in trials if t.size == now.high)
        assert all(t.outcome != "killed" for t in trials if t.size < now.high)


@given(ranges, st.integers(0, 1 << 14), st.integers(0, MOST_FAULTS), st.integers(0, 2**32))
def test_faults_of_another_kind_are_tried_again_and_not_for_ever(
    of: SizeRange, beside: int, faults: int, seed: int
) -> None:
    draw, left = random.Random(seed), [faults]
    server = steady(of.memory, beside * MIB)

    def shaky(size: int):
        if left[0] and draw.random() < 0.5:
            left[0] -= 1
            return "other", None
        return server(size)

    trials, now = play(of, shaky)
    seen = sum(1 for t in trials if t.outcome == "other")
    if seen >= MOST_FAULTS:
        assert now.why == "faults"
    else:
        assert now.low == play(of, server)[1].low


@given(ranges, st.integers(0, 1 << 14), st.integers(0, 40))
def test_a_resume_goes_on_where_it_stopped(of: SizeRange, beside: int, cut: int) -> None:
    trials, _ = play(of, steady(of.memory, beside * MIB))
    for number in range(min(cut, len(trials))):
        assert compute_state(of, trials[:number]).next == trials[number].size


def test_a_guess_from_the_first_peak_saves_trials() -> None:
    # 200 MiB beside the cache in 1 GiB, to 16 MiB: the middle alone would take six sizes and a
    # repeat.
    of = SizeRange(memory=1024 * MIB, tolerance=16 * MIB, start=512 * MIB, repeats=2)
    trials, now = play(of, steady(of.memory, 200 * MIB))
    assert [t.size // MIB for t in trials] == [512, 816, 832, 816]
    assert (now.low, now.high, now.why) == (816 * MIB, 832 * MIB, "found")


def test_a_near_guess_saves_trials() -> None:
    def count(start: int, is_near: bool) -> int:
        of = SizeRange(
            memory=1024 * MIB, tolerance=16 * MIB, start=start * MIB, repeats=2, is_near=is_near
        )
        return len(play(of, steady(of.memory, 200 * MIB))[0])

    # The largest that survives is 816 MiB. The guess may be on either side of it.
    assert count(816, is_near=True) == 3
    assert count(832, is_near=True) == 4
    assert count(848, is_near=True) == 4
    assert count(848, is_near=False) > 4
    assert count(880, is_near=True) <= 6


def test_fewer_trials_than_the_middle_alone() -> None:
    draw, taken = random.Random(1), []
    for _ in range(300):
        of = SizeRange(memory=1024 * MIB, tolerance=20 * MIB, start=512 * MIB, repeats=2)
        server = steady(
            of.memory, int(draw.uniform(20, 400)) * MIB, draw.choice([1, 1.05, 1.3, 1.8])
        )
        taken.append(len(play(of, server)[0]))
    middle = math.ceil(math.log2(of.steps + 1)) + of.repeats - 1
    assert sum(taken) / len(taken) < 0.85 * middle
    assert max(taken) <= middle + 4


@pytest.mark.parametrize(("start", "first"), [(0, 16), (10**12, 1024), (500, 496)])
def test_the_start_is_brought_into_the_range(start: int, first: int) -> None:
    of = SizeRange(memory=1024 * MIB, tolerance=16 * MIB, start=start * MIB, repeats=1)
    assert compute_state(of, []).next == first * MIB


def test_a_size_that_is_killed_in_its_repeat_is_too_large() -> None:
    of = SizeRange(memory=100, tolerance=10, start=50, repeats=2)
    trials = [
        Trial(50, "survived", 60),
        Trial(90, "survived", 100),
        Trial(100, "killed", 100),
        Trial(90, "killed", 100),
    ]
    now = compute_state(of, trials)
    assert (now.low, now.high) == (50, 90)
    assert now.next is not None
    assert 50 < now.next < 90
