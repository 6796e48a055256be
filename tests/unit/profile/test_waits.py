"""From perf's events to waits, their kinds, their split and the table of frames: recordings made by
hand.
"""

from collections.abc import Iterator

import pytest
from example_waits import CLIENT, FAULT, LOCK, RULES, UNLOCK, WORK, profile, stack
from hypothesis import given
from hypothesis import strategies as st

from dballoc.host.process.handle import Process
from dballoc.profile.contention import waits
from dballoc.profile.contention.dominant_frames import rank_dominant_frames
from dballoc.profile.contention.malloc_paths import rank_malloc_paths
from dballoc.profile.contention.perf_script import Event, Lost, Sampled, Switch
from dballoc.profile.contention.waits import SWITCHES, WAKEUP, WAKING, Tally
from dballoc.profile.contention.waits_below_malloc import split_waits
from dballoc.profile.model import Frame, Profile

PID, MS = 1, 1_000_000


def away(
    tid: int,
    at: int,
    for_: int,
    why: tuple[Frame, ...] | None,
    preempted: bool = False,
    woken: int = 0,
) -> list[Event]:
    """A thread that leaves its CPU for so many ns; with a stack if it was in a window; woken after
    so many by thread 99.
    """
    events: list[Event] = [Switch(at, tid, True, preempted), Switch(at + for_, tid, False, False)]
    if why:
        events.insert(0, Sampled(at - 1000, PID, tid, SWITCHES, 0, why))
    if woken:
        events.append(Sampled(at + woken, PID, 99, WAKEUP, tid, ()))
    return events


def in_order(events: list[Event]) -> Iterator[Event]:
    return iter(sorted((e for e in events if not isinstance(e, Lost)), key=lambda e: e.time))


def made(events: list[Event]) -> Profile:
    return waits.make_switch_profile(
        waits.gather_waits(in_order(events), Process.at(PID)), RULES, "t", 0, 1, {}
    )


def test_kinds_by_stack() -> None:
    assert RULES.classify(LOCK) == ("lock", "lock", "malloc")
    assert RULES.classify(FAULT) == ("memory", "page fault", "malloc")
    assert RULES.classify(CLIENT) == ("client", "client", "")
    assert RULES.classify(WORK, preempted=True) == ("preempted", "preempted", "")
    assert RULES.classify(stack("f", "pthread_cond_timedwait", "[do_futex]")).group == "condition"
    assert RULES.classify(stack("buf_page_get", "pthread_mutex_lock", "[do_futex]")) == (
        "lock",
        "lock",
        "",
    )
    assert (
        RULES.classify(
            stack("f", "operator delete(void*)@libjemalloc.so.2", "munmap@libc.so.6")
        ).call
        == "munmap"
    )
    assert RULES.classify(stack("f", "something_nobody_knows")).group == "other"


@pytest.mark.parametrize(
    ("functions", "entry"),
    [
        (
            ("f", "operator new[](unsigned long)@libstdc++.so.6", "malloc@libc.so.6"),
            "operator new[](unsigned long)",
        ),
        (("f", "libjemalloc.so.2+0x12@libjemalloc.so.2", "x"), "libjemalloc.so.2+0x12"),
        (("f", "scalable_malloc@libtbbmalloc.so.2"), "scalable_malloc"),
        (
            ("background_thread_entry@libjemalloc.so.2", "pthread_cond_timedwait"),
            "",
        ),  # jemalloc's own thread
        (
            ("mi_rkey", "tc_log_open", "Foo::free", "my_malloc"),
            "",
        ),  # MyISAM, the transaction coordinator, a method, a wrapper
    ],
)
def test_where_malloc_is_entered(functions: tuple[str, ...], entry: str) -> None:
    assert RULES.find_entry(stack(*functions)) == entry


def test_durations_and_queues() -> None:
    found = made(
        [
            *away(2, 10 * MS, 6 * MS, LOCK, woken=2 * MS),
            *away(3, 11 * MS, 3 * MS, WORK, preempted=True),
        ]
    )
    preempted, lock = sorted(found.samples, key=lambda s: s.values)
    assert lock.values == pytest.approx((1, 0.006, 0.004, 0))
    assert lock.labels == {"wait": "lock", "call": "lock", "malloc": "malloc"}
    assert preempted.values == pytest.approx((0, 0, 0.003, 1))
    assert preempted.labels == {"wait": "preempted", "call": "preempted"}


def test_stacks_stand_for_those_that_were_not_recorded() -> None:
    # Ten waits, two of them in a window; four preemptions, one of them in a window.
    events = [e for i in range(8) for e in away(2, (10 + 10 * i) * MS, MS, None)]
    events += [*away(3, 10 * MS, MS, LOCK), *away(3, 20 * MS, 3 * MS, CLIENT)]
    events += [
        e
        for i in range(4)
        for e in away(4, (10 + 10 * i) * MS, MS, WORK if i == 2 else None, preempted=True)
    ]
    found = made(events)
    assert found.total("waits") == pytest.approx(10)
    # Nine of a millisecond and one of three: all were timed, two have a stack.
    assert found.total("waited") == pytest.approx(0.012)
    assert found.facts["seconds waited"] == "0.012"
    assert found.total("preempted") == pytest.approx(4)
    assert (found.facts["switches"], found.facts["preemptions"], found.facts["stacks"]) == (
        "14",
        "4",
        "3",
    )


def test_a_wait_that_goes_on_at_the_end_lasts_until_then() -> None:
    events = [
        Sampled(MS - 10, PID, 2, SWITCHES, 0, LOCK),
        Switch(MS, 2, True, False),
        *away(3, 2 * MS, 3 * MS, None),
    ]
    assert made(events).total("waited") == pytest.approx(0.004 + 0.003)


def test_a_stack_of_another_switch_is_not_taken() -> None:
    # The records of the switch that the sample belongs to were lost.
    events = [Sampled(MS, PID, 2, SWITCHES, 0, LOCK), *away(2, 100 * MS, MS, None)]
    assert not made(events).samples


def test_wakeups_by_the_servers_own_threads() -> None:
    events: list[Event] = [Sampled(i, PID, 2, WAKEUP, 3, ()) for i in range(10)]
    events += [Sampled(20, PID, 2, WAKING, 3, UNLOCK), Sampled(21, 999, 2, WAKING, 3, CLIENT)]
    found = waits.make_wakeup_profile(
        waits.gather_waits(iter(events), Process.at(PID)), RULES, "t", 0, 1, {}
    )
    assert [(s.stack, s.values, s.labels) for s in found.samples] == [
        (UNLOCK, (10.0,), {"malloc": "free"})
    ]


def test_losses_are_counted() -> None:
    assert (
        waits.gather_waits(
            iter([Lost(1, 100), Lost(5, 3), Lost(6, 4)]), Process.at(PID), since=5
        ).lost
        == 7
    )


EVENTS = st.one_of(
    st.builds(Switch, st.integers(0, 10**9), st.integers(1, 4), st.booleans(), st.booleans()),
    st.builds(
        Sampled,
        st.integers(0, 10**9),
        st.integers(1, 2),
        st.integers(1, 4),
        st.sampled_from([SWITCHES, WAKING, WAKEUP]),
        st.integers(0, 4),
        st.sampled_from([(), LOCK, FAULT, CLIENT, WORK]),
    ),
    st.builds(Lost, st.integers(0, 10**9), st.integers(0, 5)),
)


@given(st.lists(EVENTS, max_size=60))
def test_whatever_was_lost_nothing_is_negative_and_no_wait_is_made_up(events: list[Event]) -> None:
    found = waits.gather_waits(iter(events), Process.at(PID))
    assert found.waits + found.preemptions == sum(isinstance(e, Switch) and e.out for e in events)
    profile = waits.make_switch_profile(found, RULES, "t", 0, 1, {})
    assert all(value >= 0 for sample in profile.samples for value in sample.values)
    assert profile.total("waits") <= found.waits + 1e-6
    said = split_waits(profile)
    assert said.below.waits + said.above.waits == pytest.approx(said.total.waits)


def test_the_split() -> None:
    said = split_waits(profile((LOCK, 30), (FAULT, 10), (CLIENT, 60)))
    assert said.share(said.malloc["lock"]) == pytest.approx(0.3)
    assert said.share(said.calls["page fault"]) == pytest.approx(0.1)
    assert said.share(said.elsewhere["client"]) == pytest.approx(0.6)
    assert said.below.waited == pytest.approx(0.04)


def test_the_table_of_frames() -> None:
    one = profile(
        (LOCK, 60),
        (stack("do_command", "free@libc.so.6", "__lll_lock_wait_private@libc.so.6"), 20),
        (CLIENT, 20),
    )
    other = profile((CLIENT, 79), (WORK, 20), (LOCK, 1))
    rows = rank_dominant_frames({"arena": one, "jemalloc": other}, "waits")
    assert [r.function for r in rows[:2]] == ["__lll_lock_wait_private", "recv"]
    lock = rows[0]
    assert lock.allocator
    assert lock.shares == pytest.approx({"arena": 0.8, "jemalloc": 0.01})
    names = {r.function: r for r in rows}
    assert not names["recv"].allocator
    assert not names["my_malloc"].allocator  # it calls malloc
    assert names["malloc"].allocator
    # On all stacks of all variants, and the kernel's.
    assert not {"do_command", "start_thread", "schedule", "do_futex"} & set(names)


def test_the_table_of_one_profile() -> None:
    rows = rank_dominant_frames({"share": profile((LOCK, 30), (CLIENT, 70))}, "waits")
    assert rows[0].function == "recv"
    assert rows[0].difference == pytest.approx(0.7)


def test_an_idle_server_waits_for_its_clients() -> None:
    rows = rank_dominant_frames({"share": profile((LOCK, 2), (CLIENT, 98))}, "waits")
    assert rows[0].function == "recv"  # vio_read leads to as many, and to no other
    assert "vio_read" not in {r.function for r in rows}


def test_the_ways_into_malloc() -> None:
    deep = stack(
        "a",
        "b",
        "c",
        "d",
        "e",
        "malloc@libc.so.6",
        "__lll_lock_wait_private@libc.so.6",
        "[do_futex]",
    )
    first, second = rank_malloc_paths(profile((deep, 30), (FAULT, 10), (CLIENT, 60)), "waits")
    assert first.functions == ("b", "c", "d", "e", "malloc", "__lll_lock_wait_private")
    assert (first.wait, first.share) == ("lock", pytest.approx(0.3))
    assert second.wait == "page fault"


def test_what_has_the_same_names_is_added_up() -> None:
    places = [Frame(f"a+{address:#x}", "a", named=False) for address in (1, 2, 3)]
    names = dict(zip(places, (Frame("f", "a"), Frame("f", "a"), Frame("g", "a")), strict=True))
    recorded = waits.Waits(waits=4, lost=7)
    for place, count in zip(places, (1, 2, 4), strict=True):
        recorded.stacks[(place,), False, 20] = Tally(count, 0.5, 0.25)
        recorded.wakers[(place,)] = count
    named = waits.replace_frames(recorded, names)
    assert named.stacks == {
        ((Frame("f", "a"),), False, 20): Tally(3, 1.0, 0.5),
        ((Frame("g", "a"),), False, 20): Tally(4, 0.5, 0.25),
    }
    assert named.wakers == {(Frame("f", "a"),): 3, (Frame("g", "a"),): 4}
    assert (named.waits, named.lost) == (4, 7)
