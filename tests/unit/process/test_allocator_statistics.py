"""What allocators say of themselves, as the loadable function hands it over, and what a ledger
makes of it.
"""

import json
from dataclasses import replace
from typing import Any

import pytest
from example_server_memory import GLIBC_IN_USE, make_server_memory, make_snapshot
from example_statistics import GPERFTOOLS, JEMALLOC, MIB
from hypothesis import given
from hypothesis import strategies as st

from dballoc.evidence.sql import allocator_statistics
from dballoc.evidence.sql.server_memory import POOL, OwnerMemory, ServerMemory
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.explain.ledger.ledger_line import UNACCOUNTED
from dballoc.process import smaps
from dballoc.process.heaps import allocator_statistics as accounts
from dballoc.process.heaps import mimalloc_heap
from dballoc.process.heaps.allocator_statistics import (
    CACHES,
    HELD,
    LAZY,
    LIVE_ALL,
    LIVE_LARGE,
    LIVE_SMALL,
    METADATA,
    AllocatorStatistics,
    Holding,
    make_statistics,
)
from dballoc.process.heaps.glibc_arenas import ArenaUsage, GlibcHeap
from dballoc.process.heaps.heap_walk import LargeBlock
from dballoc.process.mapping_kind import MappingKind
from dballoc.process.snapshot import ProcessSnapshot

GOOGLE = {
    "format": 1,
    "malloc": "/x/libgoogle_tcmalloc.so",
    "allocator": "google-tcmalloc",
    "generic.current_allocated_bytes": 40 * MIB,
    "tcmalloc.pageheap_free_bytes": 2 * MIB,
    "tcmalloc.pageheap_unmapped_bytes": 0,
    "tcmalloc.central_cache_free": MIB,
    "tcmalloc.transfer_cache_free": MIB,
    "tcmalloc.sharded_transfer_cache_free": MIB,
    "tcmalloc.cpu_free": 2 * MIB,
    "tcmalloc.thread_cache_free": MIB,
    "tcmalloc.metadata_bytes": 3 * MIB,
}
GLIBC = {
    "format": 1, "malloc": "/lib/libc.so.6", "allocator": "glibc",
    "malloc_info": """<malloc version="1">
<heap nr="0">
<total type="fast" count="0" size="0"/>
<total type="rest" count="1" size="116976"/>
<system type="current" size="135168"/>
</heap>
<heap nr="1">
<total type="fast" count="2" size="64"/>
<total type="rest" count="9994" size="10084633"/>
<system type="current" size="20164608"/>
</heap>
<total type="fast" count="2" size="64"/>
<total type="rest" count="9995" size="10201609"/>
<total type="mmap" count="7" size="12500992"/>
<system type="current" size="20299776"/>
<system type="max" size="20299776"/>
</malloc>
""",
}  # fmt: skip


def read(said: dict[str, Any], **changes: Any) -> AllocatorStatistics:
    return allocator_statistics.parse_statistics(json.dumps(said | changes))


def sizes(found: AllocatorStatistics) -> dict[str, int]:
    return {h.owner: h.bytes for h in found.holdings}


def test_jemalloc() -> None:
    found = read(JEMALLOC)
    # Threads' caches count as allocated, the free places of slabs as active.
    assert sizes(found) == {
        LIVE_SMALL: 16 * MIB,
        LIVE_LARGE: 12 * MIB,
        CACHES: 2 * MIB,
        HELD: 8 * MIB,
        LAZY: 2 * MIB,
        METADATA: 3 * MIB,
    }
    assert (found.live, found.returned) == (28 * MIB, 7 * MIB)
    held = next(h for h in found.holdings if h.owner == HELD)
    assert (
        held.note
        == "6.0 MiB of pages in use, 2.0 MiB dirty; most of one size: 3.0 MiB in blocks of 1024"
    )


def test_a_jemalloc_of_before_5_calls_its_largest_blocks_huge() -> None:
    old = [
        {
            "arena": 0,
            "small.allocated": MIB,
            "large.allocated": MIB,
            "huge.allocated": 8 * MIB,
            "pdirty": 0,
        }
    ]
    found = read(JEMALLOC, arenas=old, bins=[], **{"stats.allocated": 10 * MIB})
    assert sizes(found)[LIVE_LARGE] == 9 * MIB
    assert found.live == 10 * MIB


def test_a_jemalloc_without_statistics_says_so() -> None:
    found = allocator_statistics.parse_statistics(
        json.dumps({k: v for k, v in JEMALLOC.items() if not k.startswith("stats.")})
    )
    assert (found.holdings, found.live) == ([], None)
    assert found.notes == ["this jemalloc was built without statistics"]


def test_gperftools() -> None:
    assert sizes(read(GPERFTOOLS)) == {
        LIVE_ALL: 40 * MIB,
        CACHES: 3 * MIB,
        HELD: 7 * MIB,
        METADATA: 2883584,
    }
    assert read(GPERFTOOLS).returned == 5 * MIB


def test_googles_caches_are_of_cpus_and_threads() -> None:
    assert sizes(read(GOOGLE)) == {
        LIVE_ALL: 40 * MIB,
        CACHES: 3 * MIB,
        HELD: 5 * MIB,
        METADATA: 3 * MIB,
    }


def test_glibc_without_the_flags_that_it_adds_up() -> None:
    found = sizes(read(GLIBC))
    assert found[LIVE_LARGE] == 12500992
    assert found[HELD] == 10201609 - 9993 + 64
    assert found[LIVE_SMALL] == 20299776 - found[HELD]


def test_mimalloc_counts_what_is_live_only_in_some_builds() -> None:
    said = {
        "format": 1,
        "malloc": "/x/libmimalloc.so",
        "allocator": "mimalloc",
        "current_commit": 95 * MIB,
    }
    plain = read(said)
    assert (plain.live, plain.holdings) == (None, [])
    assert plain.notes == [
        "mimalloc has committed 95.0 MiB",
        "this build of mimalloc does not count what is live",
    ]
    stats = {"malloc_normal": {"total": 9, "current": 5 * MIB}, "malloc_huge": {"current": MIB}}
    assert read(said, stats=json.dumps(stats)).live == 6 * MIB
    assert read(said, stats="{ not JSON").live is None


def test_an_old_scudo_counts_modulo() -> None:
    found = read(
        {
            "format": 1,
            "malloc": "/x",
            "allocator": "scudo",
            "allocated": 5,
            "free": 3,
            "modulo": 1 << 32,
        }
    )
    assert (found.live, sizes(found)) == (5, {LIVE_ALL: 5, HELD: 3})
    assert "4 GiB more" in found.notes[0]


def test_tbbmalloc_says_that_it_says_nothing() -> None:
    found = read({"format": 1, "malloc": "/x", "allocator": "tbbmalloc", "report": "nothing"})
    assert (found.live, found.notes) == (None, ["nothing"])


def test_an_answer_that_was_cut_says_so() -> None:
    assert "left some arenas out" in read(JEMALLOC, cut=True).notes[-1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ('{"format": 1', "not JSON"),
        ("[1]", "another version"),
        ('{"format": 2}', "another version"),
        (
            '{"format": 1, "malloc": "/opt/libhoard.so"}',
            "does not know the malloc in /opt/libhoard.so",
        ),
        ('{"format": 1}', "does not know the malloc in use"),
        ('{"format": 1, "allocator": "jemalloc"}', "figures of jemalloc cannot be read"),
        (
            '{"format": 1, "allocator": "glibc", "malloc_info": "<malloc/>"}',
            "figures of glibc cannot be read",
        ),
        (
            '{"format": 1, "allocator": "gperftools", "tcmalloc.central_cache_free_bytes": "x"}',
            "cannot be read",
        ),
    ],
)
def test_what_is_not_understood_is_one_line(text: str, says: str) -> None:
    with pytest.raises(allocator_statistics.UnreadableStatistics, match=says) as refused:
        allocator_statistics.parse_statistics(text)
    assert "\n" not in str(refused.value)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=9,
    )
)
def test_whatever_a_function_answers_nothing_else_is_raised(value: Any) -> None:
    for said in (JEMALLOC, GPERFTOOLS, GOOGLE, GLIBC):
        for key in said:
            try:
                found = read(said, **{key: value})
            except allocator_statistics.UnreadableStatistics:
                continue
            assert all(h.bytes >= 0 for h in found.holdings)


SIZES = st.integers(0, 1 << 40)
ACCOUNTS = st.builds(
    lambda parts, returned: make_statistics(
        "x", [Holding(owner, size) for owner, size in parts.items()], returned
    ),
    st.dictionaries(
        st.sampled_from([LIVE_SMALL, LIVE_LARGE, LIVE_ALL, CACHES, HELD, LAZY, METADATA]), SIZES
    ),
    SIZES,
)


@given(ACCOUNTS, SIZES)
def test_no_more_is_resident_than_the_pages_and_than_was_told(
    found: AllocatorStatistics, pages: int
) -> None:
    there = accounts.apportion_resident(found, pages)
    told = sum(h.bytes for h in found.holdings)
    assert all(0 <= size <= h.bytes for h, size in there)
    total = sum(size for _, size in there)
    assert total <= pages
    # All but a few bytes: the largest has what was rounded off, as far as it goes.
    assert total >= min(told, pages) - len(there)


def test_what_was_never_touched_is_live_or_free_and_in_no_cache() -> None:
    found = make_statistics(
        "x",
        [Holding(LIVE_SMALL, 10), Holding(LIVE_LARGE, 20), Holding(HELD, 30), Holding(CACHES, 5)],
    )
    assert [size for _, size in accounts.apportion_resident(found, 100)] == [10, 20, 30, 5]
    assert [size for _, size in accounts.apportion_resident(found, 35)] == [5, 10, 15, 5]
    assert [size for _, size in accounts.apportion_resident(found, 5)] == [0, 0, 0, 5]
    assert [size for _, size in accounts.apportion_resident(found, 3)] == [0, 0, 0, 3]


SMAPS = """\
55e511d6c000-55e51269d000 r-xp 00682000 fe:00 10706945                   /usr/sbin/mariadbd
Rss:                4096 kB
VmFlags: rd ex mr mw me
7f4c640c6000-7f4c6a0c6000 rw-p 00000000 00:00 0
Rss:               {rss} kB
VmFlags: rd wr mr mw me ac
"""


def look(rss: int, heap: GlibcHeap | None = None, name: str = "jemalloc") -> ProcessSnapshot:
    in_use = replace(
        GLIBC_IN_USE, name=name, title=name, version="5.3.0", library=f"/usr/lib/lib{name}.so.2"
    )
    mappings = smaps.parse_smaps(SMAPS.format(rss=rss >> 10))
    return make_snapshot(
        malloc=in_use,
        mappings=mappings,
        kinds=[MappingKind.CODE, MappingKind.MALLOC if heap is None else MappingKind.HEAP],
        heap=heap,
    )


def residents(
    found: ProcessSnapshot, labels: ServerMemory | None, said: AllocatorStatistics | None
) -> dict[str, int]:
    books_of = build_ledger(found, labels, said)
    assert sum(line.resident for line in books_of.lines) + books_of.rest == books_of.rss
    return {line.owner: line.resident for line in books_of.lines}


def test_a_ledger_has_the_mallocs_own_lines() -> None:
    found = residents(look(50 * MIB), None, read(JEMALLOC))
    assert found[LIVE_LARGE] == 12 * MIB
    assert found[HELD] == 8 * MIB
    assert found[UNACCOUNTED] == 50 * MIB - 43 * MIB
    assert MappingKind.MALLOC not in found
    whole = build_ledger(look(50 * MIB), None, read(JEMALLOC))
    assert whole.tiers == ["outside", "function"]
    assert whole.unowned == (16 + 12 + 7) * MIB
    assert "jemalloc keeps 7.0 MiB of address space without memory behind it" in whole.notes


def test_what_is_told_and_not_in_memory_is_said() -> None:
    found = build_ledger(look(40 * MIB), None, read(JEMALLOC))
    lines = {line.owner: line for line in found.lines}
    assert UNACCOUNTED not in lines
    assert (lines[LIVE_LARGE].resident, lines[LIVE_LARGE].size) == (12 * MIB * 35 // 38, 12 * MIB)
    assert (lines[CACHES].resident, lines[METADATA].resident) == (2 * MIB, 3 * MIB)
    assert any(
        note.startswith("3.0 MiB of what jemalloc accounts for are not in memory")
        for note in found.notes
    )


def test_labels_take_from_the_mallocs_live_blocks() -> None:
    labels = make_server_memory(
        version="10.11-MariaDB",
        heap=[OwnerMemory(owner="sessions", bytes=4 * MIB, source="processlist")],
    )
    found = residents(look(60 * MIB), labels, read(GPERFTOOLS))
    assert (found["sessions"], found[LIVE_ALL]) == (4 * MIB, 36 * MIB)


def test_a_cache_among_the_mallocs_pages_is_none_of_its_blocks() -> None:
    """As with MySQL's pool: the kernel has merged its mapping with the malloc's, whose books know
    nothing of it.
    """
    labels = make_server_memory(
        version="8.0", mapped_caches={POOL: 128 * MIB}, filled={POOL: 20 * MIB}
    )
    alone = residents(look(60 * MIB), None, read(GPERFTOOLS))
    found = residents(look(80 * MIB), labels, read(GPERFTOOLS))
    assert found == alone | {POOL: 20 * MIB}


def walked(blocks: list[LargeBlock], small: int = 0) -> ProcessSnapshot:
    """A look at 60 MiB under mimalloc."""
    holdings = [
        Holding(LIVE_SMALL, small, resident=small),
        Holding(LIVE_LARGE, sum(b.asked for b in blocks), resident=sum(b.resident for b in blocks)),
    ]
    return replace(
        look(60 * MIB, name="mimalloc"),
        heap=mimalloc_heap.MimallocHeap(make_statistics("mimalloc", holdings), blocks, []),
    )


def test_what_malloc_was_asked_for_is_told_by_what_is_touched() -> None:
    """A table of 2.6 MiB and one of 3 MiB take the same; a block that may have been half a MiB less
    is not one of 2 MiB.
    """
    smaller, larger = (
        LargeBlock(1, 3 * MIB, 26 * MIB // 10, MIB // 2),
        LargeBlock(2, 3 * MIB, 3 * MIB, MIB // 2),
    )
    untouched = LargeBlock(3, 4 * MIB, 4096, MIB // 2)
    assert [b.asked for b in (smaller, larger, untouched, LargeBlock(4, MIB, 9))] == [
        26 * MIB // 10,
        3 * MIB,
        35 * MIB // 10,
        MIB,
    ]
    for size, mine in ((26 * MIB // 10, smaller), (3 * MIB, larger), (36 * MIB // 10, untouched)):
        labels = make_server_memory(
            version="8.0",
            heap=[OwnerMemory(owner="x", bytes=size, source="P_S", single_block=True)],
        )
        found = residents(walked([smaller, larger, untouched]), labels, None)
        assert found["x"] == mine.resident
        assert (
            found[LIVE_LARGE]
            == sum(b.resident for b in (smaller, larger, untouched)) - mine.resident
        )
    labels = make_server_memory(
        version="8.0", heap=[OwnerMemory(owner="x", bytes=2 * MIB, source="P_S", single_block=True)]
    )
    assert "x" not in residents(walked([smaller, larger, untouched]), labels, None)


def test_books_from_outside_are_no_functions() -> None:
    seen = walked([], 10 * MIB)
    for said in (None, read({"format": 1, "malloc": "/x/libmimalloc.so", "allocator": "mimalloc"})):
        found = build_ledger(seen, None, said)
        assert {line.owner: line.resident for line in found.lines}[LIVE_SMALL] == 10 * MIB
        assert found.tiers == ["outside", *(["function"] if said else [])]
        # What the function says of itself stays true.
        assert any("does not count" in note for note in found.notes) is (said is not None)


def test_what_is_not_in_memory_is_none_of_what_was_zeroed() -> None:
    zeroed = OwnerMemory(
        owner="performance_schema itself",
        bytes=11 * MIB,
        source="SHOW ENGINE PERFORMANCE_SCHEMA STATUS",
        zeroed=True,
    )
    labels = make_server_memory(
        version="10.11-MariaDB",
        heap=[OwnerMemory(owner="sessions", bytes=4 * MIB, source="processlist"), zeroed],
    )
    alone = residents(look(30 * MIB), None, read(JEMALLOC))
    found = residents(look(30 * MIB), labels, read(JEMALLOC))
    large, small = alone[LIVE_LARGE], alone[LIVE_SMALL]
    assert large < 11 * MIB < large + small
    assert found["performance_schema itself"] == 11 * MIB
    assert found.get(LIVE_LARGE, 0) == 0
    lines = build_ledger(look(30 * MIB), labels, read(JEMALLOC)).lines
    assert [line.owner for line in lines[:2]] == ["sessions", "performance_schema itself"]
    sessions, performance_schema = lines[:2]
    assert (performance_schema.least, performance_schema.most) == (11 * MIB, 11 * MIB)
    assert (sessions.least, sessions.most) == (0, 4 * MIB)


def test_beyond_the_books_a_label_has_all_that_it_asks() -> None:
    """The size of what no book tells is that of the mappings, of which most is reserved."""
    labels = make_server_memory(
        version="10.11-MariaDB",
        heap=[OwnerMemory(owner="sessions", bytes=33 * MIB, source="processlist")],
    )
    found = residents(look(60 * MIB), labels, read(JEMALLOC))
    assert (found["sessions"], found[UNACCOUNTED]) == (33 * MIB, (17 - 5) * MIB)


def test_without_books_the_malloc_has_one_line() -> None:
    said = read({"format": 1, "malloc": "/x", "allocator": "tbbmalloc", "report": "nothing"})
    assert residents(look(50 * MIB), None, said)[MappingKind.MALLOC] == 50 * MIB


def test_glibcs_own_word_is_held_against_the_walk() -> None:
    live = read(GLIBC).live
    assert live is not None
    small = live - 12500992
    agrees = GlibcHeap(
        [ArenaUsage(address=1, live=small - 1000, live_resident=0, tcache=1000)],
        {1: [LargeBlock(1, 12500992, 0)]},
        [],
    )
    assert not [
        n
        for n in build_ledger(look(60 * MIB, agrees, "glibc"), None, read(GLIBC)).notes
        if "itself says" in n
    ]
    other = GlibcHeap(
        [ArenaUsage(address=1, live=small // 2)], {1: [LargeBlock(1, 12500992, 0)]}, []
    )
    [note] = [
        n
        for n in build_ledger(look(60 * MIB, other, "glibc"), None, read(GLIBC)).notes
        if "itself says" in n
    ]
    assert "glibc itself says that 21.6 MiB are in use" in note


def test_a_text_in_place_of_a_number_is_not_repeated() -> None:
    """Found by the fuzzer: a server's ``"x"`` times its 2,147,483,648 would be 2 GiB of ours."""
    bins = [{"size": 2, "slab_size": "x", "curregs": 7, "curslabs": 2**31}]
    for wrong in (
        {"bins": bins},
        {"bins": ["x"]},
        {"stats.allocated": "x"},
        {"arenas.page": 2**62},
        {"stats.active": True},
    ):
        with pytest.raises(
            allocator_statistics.UnreadableStatistics, match="not all are whole numbers"
        ):
            allocator_statistics.parse_statistics(json.dumps({**JEMALLOC, **wrong}))
