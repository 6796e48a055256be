"""The heap probe's snapshots read, and what is made of them."""

import itertools
import math
import struct

import example_probe_snapshots as made
import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from dballoc.catalogue import wrappers
from dballoc.profile.heap import heap_profile, malloc_latency
from dballoc.profile.heap.probe_snapshot import (
    Damaged,
    SampledBlock,
    Snapshot,
    compute_bucket_start,
    parse_snapshot,
)
from dballoc.profile.model import Frame

SMALL = SampledBlock(
    address=64, usable=104, requested=100, interval=1024, time=20.0, stack=8, thread=5
)
LARGE = SampledBlock(
    address=4096, usable=100_000, requested=100_000, interval=1024, time=25.0, stack=9, thread=6
)

GOOD = made.snapshot(
    made.live(SMALL),
    made.live(LARGE),
    made.stack(8, [0x55D000001010, 0x55D000001020], 5000.0, 7),
    made.stack(9, [0x55D000001030], 100_000.0, 1),
    made.stack(10, [], truncated=True),
    made.block(b"NEW!", b"later version"),
    made.timed(0, 7, 12, 3, 60),
    made.timed(1, 7, 100, 1, 10**8),
    made.waited(8, 0, 2, 50, 0, 0),
    made.waited(9, 1, 0, 0, 1, 10**8),
    made.waited(8, 1, 1, 10, 0, 0),
    build_ids={"": "aa11", "/usr/lib/libc.so.6": "bb22"},
)


def test_a_snapshot_is_read_as_it_was_written() -> None:
    found = parse_snapshot(GOOD)
    assert found.blocks == [SMALL, LARGE]
    assert found.stacks[8].addresses == (0x55D000001010, 0x55D000001020)
    assert (found.stacks[8].bytes, found.stacks[8].samples, found.stacks[10].truncated) == (
        5000.0,
        7,
        True,
    )
    assert (found.pid, found.taken_at, found.now, found.began, found.reset, found.cpu) == (
        77,
        2e9,
        30.0,
        5.0,
        10.0,
        5.0,
    )
    assert (found.lost_blocks, found.overwritten, found.lost_stacks) == (1, 2, 3)
    assert found.complete == 1 - 1 / 99
    assert found.maps == made.MAPS


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a snapshot"),
        (b"error the request is not one line\n", "not a snapshot"),
        (GOOD[:-4], "cut short"),
        (GOOD[:-8], "cut short"),
        (b"DBALLOCP" + made.block(b"END."), "cut short"),
        (
            b"DBALLOCP" + made.head(version=2) + made.block(b"END."),
            "of version 2; this dballoc reads version 1",
        ),
        (made.snapshot(made.live(SMALL)), "cut short"),  # its stack is missing
        (made.snapshot(made.timed(0, 7, 4_000_000_000, 1, 1)), "makes no sense"),
        (made.snapshot(made.waited(8, 0, 1, 1, 0, 0)), "makes no sense"),  # its stack is missing
    ],
)
def test_what_is_no_snapshot_is_said(data: bytes, says: str) -> None:
    with pytest.raises(Damaged, match=says):
        parse_snapshot(data)


@given(st.data(), st.integers(0, len(GOOD) - 1))
@example(st.data(), 8)
def test_no_damage_is_worse_than_damaged(data: st.DataObject, at: int) -> None:
    broken = bytearray(GOOD)
    fresh = (
        bytes(range(8))
        if not isinstance(data, st.DataObject)
        else data.draw(st.binary(min_size=1, max_size=12))
    )
    broken[at : at + len(fresh)] = fresh
    try:
        found = parse_snapshot(bytes(broken))
    except Damaged:
        return
    _use(found)


def _use(found: Snapshot) -> None:
    heap_profile.parse_mappings(found)
    stacks = heap_profile.resolve_stacks(found.stacks, lambda address: (Frame(f"f{address}"),))
    heap_profile.make_profile(found, stacks, "x")
    heap_profile.rank_functions(
        found,
        {
            number: heap_profile.find_dominant_frame(stack, ["f*"])
            for number, stack in stacks.items()
        },
    )
    heap_profile.rank_functions_by_time(
        found,
        {
            number: heap_profile.find_dominant_frame(stack, ["f*"])
            for number, stack in stacks.items()
        },
    )
    malloc_latency.summarize_calls(found)
    malloc_latency.summarize_by_size(found)


def test_executable_mappings_have_their_build_ids() -> None:
    maps = heap_profile.parse_mappings(parse_snapshot(GOOD))
    assert [(m.start, m.offset, m.path) for m in maps] == [
        (0x55D000001000, 0x1000, "/usr/sbin/server"),
        (0x7F0000010000, 0x2000, "/usr/lib/libc.so.6 (deleted)"),
    ]
    # The loader has no name for the executable, and none of what was replaced since.
    assert [m.build_id for m in maps] == ["aa11", "bb22"]


def test_a_sample_stands_for_as_many_as_its_chance_says() -> None:
    p = 1 - math.exp(-101 / 1024)
    total = heap_profile.sum_blocks([SMALL])
    assert total.bytes == pytest.approx(104 / p)
    assert total.objects == pytest.approx(1 / p)
    assert total.error == pytest.approx(104 * math.sqrt(1 - p) / p)
    # A block far larger than the interval is always sampled, and is itself.
    assert heap_profile.sum_blocks([LARGE]).bytes == pytest.approx(100_000)
    assert heap_profile.sum_blocks([LARGE]).error == pytest.approx(0, abs=1e-9)


FRAMES = {
    8: (
        Frame("start_thread", "libc.so.6"),
        Frame("grow(int)", "server"),
        Frame("my_malloc", "server"),
    ),
    9: (Frame("start_thread", "libc.so.6"), Frame("main", "server")),
    10: (),
}


def test_return_addresses_are_looked_up_before_the_call_ends() -> None:
    asked: list[int] = []

    def resolve(address: int) -> tuple[Frame, ...]:
        asked.append(address)
        return (Frame(str(address)),)

    stacks = heap_profile.resolve_stacks(parse_snapshot(GOOD).stacks, resolve)
    assert [f.function for f in stacks[8]] == [
        str(0x55D00000101F),
        str(0x55D00000100F),
    ]  # the outermost first


def test_the_profile_has_all_that_is_alive_and_all_that_was_allocated() -> None:
    profile = heap_profile.make_profile(parse_snapshot(GOOD), FRAMES, "heap")
    assert profile.total("live") == pytest.approx(heap_profile.sum_blocks([SMALL, LARGE]).bytes)
    assert profile.total("live.variance") == pytest.approx(
        heap_profile.sum_blocks([SMALL, LARGE]).variance
    )
    assert profile.total("allocated") == 105_000
    assert len(profile.samples) == 2


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (["main", "THD::init(bool)", "my_malloc"], "THD::init(bool)"),
        (
            ["main", "std::vector<int>::reserve(unsigned long)", "operator new(unsigned long)"],
            "main",
        ),
        (["main", "(server+0x10)", "alloc_root"], "main"),
        (["my_malloc"], "my_malloc"),
    ],
)
def test_memory_is_the_first_callers_that_does_not_only_hand_it_on(
    stack: list[str], expected: str
) -> None:
    frames = [Frame(name, "server", named=not name.startswith("(")) for name in stack]
    assert heap_profile.find_dominant_frame(frames, wrappers()).function == expected


def owners() -> dict[int, Frame]:
    return {
        number: heap_profile.find_dominant_frame(stack, ["my_malloc"])
        for number, stack in FRAMES.items()
    }


def test_functions_have_what_is_alive_and_what_they_allocated() -> None:
    rows = heap_profile.rank_functions(parse_snapshot(GOOD), owners())
    assert [(row.name, row.allocated) for row in rows] == [("main", 100_000.0), ("grow", 5000.0)]
    assert rows[0].live.samples == 1


def test_growth_is_what_came_less_what_went() -> None:
    stacks = [made.stack(8, [1]), made.stack(9, [2]), made.stack(10, [])]
    old = [LARGE._replace(address=a) for a in range(4096, 4096 * 5, 4096)]
    new = [SMALL._replace(address=a, time=28.0) for a in range(16, 16 * 200, 16)]
    before = parse_snapshot(made.snapshot(*map(made.live, old), *stacks))
    after = parse_snapshot(made.snapshot(*map(made.live, [*old[1:], *new]), *stacks))
    grown, shrunk = heap_profile.rank_growth(before, after, owners())
    assert (grown.name, shrunk.name) == ("grow", "main")
    assert grown.change.bytes == pytest.approx(heap_profile.sum_blocks(new).bytes)
    assert shrunk.change.bytes == pytest.approx(-100_000)
    assert shrunk.after == pytest.approx(300_000)
    assert heap_profile.rank_growth(before, before, owners()) == []


def test_one_lucky_sample_does_not_come_before_a_sure_leak() -> None:
    stacks = [made.stack(8, [1]), made.stack(9, [2])]
    leak = [
        LARGE._replace(address=a, usable=1000, requested=1000) for a in range(4096, 4096 * 50, 4096)
    ]
    lucky = SMALL._replace(usable=20_000, requested=10)
    found = heap_profile.rank_growth(
        parse_snapshot(made.snapshot(*stacks)),
        parse_snapshot(made.snapshot(*map(made.live, [*leak, lucky]), *stacks)),
        owners(),
    )
    assert heap_profile.sum_blocks([lucky]).bytes > heap_profile.sum_blocks(leak).bytes
    assert [row.name for row in found] == ["main", "grow"]


def test_time_in_malloc_leaves_out_what_waited() -> None:
    said = malloc_latency.summarize_calls(parse_snapshot(GOOD))
    assert said.seconds == pytest.approx(60 * 1024 / 1e9)
    assert said.share == pytest.approx(60 * 1024 / 1e9 / 5)
    assert (said.stalls, said.timed) == (1024, 4)
    assert said.stalled_seconds == pytest.approx(0.1 * 1024)
    malloc, free = malloc_latency.summarize_by_size(parse_snapshot(GOOD))
    assert (malloc.operation, malloc.sizes, malloc.calls, malloc.mean) == (
        "malloc",
        (64, 128),
        3 * 1024,
        20.0,
    )
    assert (free.operation, free.p50) == ("free", compute_bucket_start(100))


def test_time_is_the_stacks_whose_calls_were_timed() -> None:
    # One call in 1024 is timed; of those that did not stall one in 32 has its stack taken, of the
    # others all.
    profile = heap_profile.make_profile(parse_snapshot(GOOD), FRAMES, "heap")
    assert profile.total("time") == pytest.approx(60 * 1024 * 32 / 1e9)
    assert profile.total("stalled") == pytest.approx(0.1 * 1024)
    rows = heap_profile.rank_functions_by_time(parse_snapshot(GOOD), owners())
    assert [row.name for row in rows] == ["main", "grow"]
    assert (rows[0].stalled, rows[1].seconds) == (
        pytest.approx(0.1 * 1024),
        pytest.approx(60 * 1024 * 32 / 1e9),
    )
    only_waits = parse_snapshot(made.snapshot(made.stack(9, [2]), made.waited(9, 0, 1, 5, 0, 0)))
    assert len(heap_profile.make_profile(only_waits, FRAMES, "heap").samples) == 1


def test_time_buckets_follow_each_other() -> None:
    starts = [compute_bucket_start(b) for b in range(160)]
    assert starts[:14] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20]
    assert all(a < b for a, b in itertools.pairwise(starts))


def test_the_head_has_its_size() -> None:
    assert len(made.head()) == 8 + struct.calcsize("=20Q")
