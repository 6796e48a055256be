"""Functions, stacks and growth of profiles."""

import pytest
from example_profiles import MIB, heap, profiles
from hypothesis import given

from dballoc.profile import call_tree, profile_tables
from dballoc.profile.amounts import format_amount, format_signed_amount
from dballoc.profile.frame_kinds import classify_frame
from dballoc.profile.model import Frame, Profile, Sample


def test_a_function_that_calls_itself_counts_once() -> None:
    found = profile_tables.sum_inclusive(heap(), "live")
    assert found["parse_sql(THD*, Parser_state*)"] == 6 * MIB
    assert found["main"] == 7 * MIB
    assert found["malloc"] == heap().total("live")


def test_the_innermost_frame_owns_the_value() -> None:
    assert profile_tables.sum_exclusive(heap(), "objects") == {"malloc": 50}
    top = profile_tables.rank_functions(heap(), "live")[0]
    assert (top.name, top.inclusive, top.exclusive, top.module) == (
        "malloc",
        7.5 * MIB,
        7.5 * MIB,
        "libc.so.6",
    )


def test_stacks_are_merged_and_the_largest_is_first() -> None:
    profile = heap()
    twice = Profile(title="p", values=profile.values, samples=[*profile.samples, *profile.samples])
    rows = profile_tables.rank_stacks(twice, "live")
    assert [row.value / MIB for row in rows] == [8, 4, 2, 1]
    assert rows[0].error == pytest.approx(2**0.5 * MIB)
    assert rows[-1].frames[0] == "[truncated]"
    assert profile_tables.rank_stacks(twice, "objects")[0].error is None


def test_a_planted_leak_is_the_first_line() -> None:
    rows = profile_tables.rank_growth(heap(), heap(leak=3), "live")
    assert (rows[0].grown, rows[0].before, rows[0].after) == (4 * MIB, 2 * MIB, 6 * MIB)
    assert rows[0].frames[-2] == "mariadbd+0x1a2b"
    assert rows[0].error == pytest.approx(2**0.5 * MIB)
    assert all(row.grown == 0 for row in rows[1:])
    assert profile_tables.rank_growth(heap(leak=3), heap(), "live")[-1].grown == -4 * MIB


def test_what_only_one_profile_has_grew_from_nothing_or_to_nothing() -> None:
    empty = Profile(title="empty", values=heap().values, samples=[])
    assert {row.before for row in profile_tables.rank_growth(empty, heap(), "live")} == {0.0}
    assert sum(row.grown for row in profile_tables.rank_growth(heap(), empty, "live")) == -7.5 * MIB


def test_an_error_is_that_of_both_or_unknown() -> None:
    bare = Profile(
        title="bare",
        values=heap().values[:1],
        samples=[Sample(s.stack, s.values[:1]) for s in heap().samples[:2]],
    )
    for pair in ((bare, heap()), (heap(), bare)):
        assert {row.error for row in profile_tables.rank_growth(*pair, "live")} == {None}


def test_variances_are_not_for_people() -> None:
    assert [value.key for value in profile_tables.list_shown_values(heap())] == [
        "live",
        "objects",
        "spent",
    ]


def test_no_such_value() -> None:
    with pytest.raises(KeyError):
        profile_tables.sum_inclusive(heap(), "waited")


@given(profile=profiles())
def test_no_function_has_more_than_the_whole(profile: Profile) -> None:
    key = profile.values[0].key
    whole = profile.total(key)
    assert all(
        number <= whole * (1 + 1e-9)
        for number in profile_tables.sum_inclusive(profile, key).values()
    )
    with_stack = sum(s.values[0] for s in profile.samples if s.stack)
    assert sum(profile_tables.sum_exclusive(profile, key).values()) == pytest.approx(with_stack)
    assert sum(row.grown for row in profile_tables.rank_growth(profile, profile, key)) == 0


@given(profile=profiles())
def test_a_tree_holds_the_whole_both_ways_round(profile: Profile) -> None:
    key = profile.values[0].key
    for innermost_first in (False, True):
        root = call_tree.build_call_tree([(profile, key)], innermost_first)
        assert root.total[0] == pytest.approx(profile.total(key))
        for _, node in call_tree.walk_call_tree(root):
            assert sum(child.total[0] for child in node.children.values()) <= node.total[0] * (
                1 + 1e-9
            )


def test_a_stack_in_a_line() -> None:
    stack = [
        "start_thread",
        "a(int)",
        "b<int>(int)",
        "c",
        "d",
        "e",
        "operator new(unsigned long)",
        "malloc",
    ]
    assert profile_tables.format_innermost(stack) == "e ← d ← c ← b<…> ← a ← …"
    assert profile_tables.format_innermost(["malloc"]) == "malloc"
    assert profile_tables.format_innermost([]) == ""


@pytest.mark.parametrize(
    ("number", "unit", "said"),
    [
        (0, "bytes", "0 B"), (1, "bytes", "1 B"), (1023, "bytes", "1,023 B"), (1024, "bytes", "1 KiB"),
        (123_456_789, "bytes", "118 MiB"), (2**31, "bytes", "2 GiB"), (0.00123, "seconds", "1.23 ms"), (0, "seconds", "0 s"),
        (5e-10, "seconds", "0.5 ns"), (12345.4, "objects", "12,345"), (11.11 * 2**20, "bytes", "11.1 MiB"),
    ],
)  # fmt: skip
def test_amounts(number: float, unit: str, said: str) -> None:
    assert format_amount(number, unit) == said
    assert format_signed_amount(-number, unit) == ("−" if number else "+") + said


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (Frame("operator new(unsigned long)", "libstdc++.so.6"), "malloc"),
        (Frame("_int_malloc", "libc.so.6"), "malloc"),
        (Frame("_int_free.part.0", "libc.so.6"), "malloc"),
        (Frame("libjemalloc.so.2+0x10", "libjemalloc.so.2", named=False), "malloc"),
        (Frame("my_malloc", "mariadbd"), "server"),
        (Frame("mariadbd+0x10", "mariadbd", named=False), "unnamed"),
        (Frame("inflate", "libz.so.1"), "library"),
        (Frame("JOIN::exec()", "ha_rocksdb.so"), "library"),
        (Frame("do_futex", "[kernel]"), "kernel"),
        (Frame("[unknown]", named=False), "unnamed"),
    ],
)
def test_what_a_frame_belongs_to(frame: Frame, said: str) -> None:
    assert classify_frame(frame) == said
