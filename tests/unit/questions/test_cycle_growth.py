"""How far mallocs creep over a trace's cycles: which cycles count, and the slope with its interval."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dballoc.questions.replay.figures import find_cycles, measure_growth
from dballoc.store.replay_facts import RecordedMark


def make_marks(*names: str) -> list[RecordedMark]:
    return [RecordedMark(t=float(i), name=name, truth={}) for i, name in enumerate(names)]


def make_ends(heaps: dict[str, list[list[int]]]) -> pl.DataFrame:
    """The heap at the ends of cycles, by variant and replay."""
    rows = [
        {"variant": variant, "trial": 100 * i + j, "cycle": cycle, "heap": heap}
        for i, (variant, replays) in enumerate(heaps.items())
        for j, replay in enumerate(replays)
        for cycle, heap in enumerate(replay, 1)
    ]
    return pl.DataFrame(rows)


def test_days_are_the_cycle_and_not_the_stretches_in_them() -> None:
    names = [n for day in range(1, 7) for n in (f"day {day}/6", "dump", "load 1/2", "load 2/2")]
    cycles = find_cycles(make_marks(*names))
    assert cycles
    assert cycles.name == "day"
    assert cycles.marks == (0, 4, 8, 12, 16, 20)
    assert cycles.settled == 2


def test_the_most_frequent_cycle_counts_and_incomplete_ones_do_not() -> None:
    shorter = [f"dump {n}/5" for n in range(1, 6)]
    longer = [f"load {n}/7" for n in range(1, 8)]
    cycles = find_cycles(make_marks(*shorter, *longer))
    assert cycles
    assert cycles.name == "load"
    assert find_cycles(make_marks(*shorter[1:])) is None
    assert find_cycles(make_marks(*reversed(shorter))) is None
    assert find_cycles(make_marks("day 1/4", "day 2/4", "day 3/4", "day 4/4")) is None
    assert find_cycles([]) is None


def test_what_a_malloc_takes_to_reach_its_size_is_no_growth() -> None:
    cycles = find_cycles(make_marks(*(f"day {n}/10" for n in range(1, 11))))
    assert cycles
    still = [10, 60, 90, 90, 90, 90, 90, 90, 90]
    creeps = [10, 60, 90, 93, 96, 99, 102, 105, 108]
    growths = measure_growth(
        make_ends({"a": [still, still], "b": [creeps, creeps], "c": [creeps]}),
        cycles,
        ["c", "b", "a", "absent"],
    )
    slopes = {g.variant: (g.slope, *(g.interval or [None])) for g in growths}
    assert list(slopes) == ["c", "b", "a"]
    assert slopes["a"] == (0, 0, 0)
    assert slopes["b"] == pytest.approx((3, 3, 3))
    assert slopes["c"] == (3, None)
    assert [g.heap for g in growths] == [108, 108, 90]


def test_the_interval_is_students_over_the_replays() -> None:
    cycles = find_cycles(make_marks(*(f"day {n}/6" for n in range(1, 7))))
    assert cycles
    replays = [[k * n for n in range(5)] for k in (1, 2, 3)]
    [growth] = measure_growth(make_ends({"a": replays}), cycles, ["a"])
    # Mean 2, standard deviation 1, t of 0.975 with 2 degrees of freedom.
    assert growth.slope == pytest.approx(2)
    assert growth.interval.high - growth.slope == pytest.approx(4.302653 / 3**0.5, rel=1e-5)


@settings(max_examples=50)
@given(st.lists(st.text(max_size=12) | st.from_regex(r"a [1-9]/[1-9]", fullmatch=True)))
def test_any_names_of_marks_are_read(names: list[str]) -> None:
    cycles = find_cycles(make_marks(*names))
    assert cycles is None or len(cycles.marks) >= 5
