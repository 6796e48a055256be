"""Mappings by class, and a ledger that adds up whatever the server says of itself."""

from dataclasses import replace

import pytest
from example_server_memory import make_server_memory, make_snapshot
from hypothesis import given
from hypothesis import strategies as st

from dballoc.catalogue import bounds as catalogue
from dballoc.evidence.sql.server_memory import KEYS, LOGS, POOL, OwnerMemory, ServerMemory
from dballoc.explain.ledger.configuration_limits import (
    AvailableMemory,
    compute_bounds,
    judge_bounds,
)
from dballoc.explain.ledger.ledger import build_ledger
from dballoc.explain.ledger.ledger_line import LAZY, LIVE, MAPPED
from dballoc.process import smaps
from dballoc.process.heaps.glibc_arenas import ArenaUsage, GlibcHeap
from dballoc.process.heaps.heap_walk import LargeBlock
from dballoc.process.mapping_kind import MappingKind, classify_mappings
from dballoc.process.snapshot import ProcessSnapshot, ServerMapping

MIB = 1 << 20

# As a MariaDB's: a program with its data and .bss, the break, an arena, a stack behind its guard,
# one that nobody has, the pool, a block that malloc mapped, a library, io_uring.
SMAPS = """\
55e511d6c000-55e51269d000 r-xp 00682000 fe:00 10706945                   /usr/sbin/mariadbd
Rss:                4096 kB
VmFlags: rd ex mr mw me
55e512ed7000-55e512fc7000 rw-p 017ec000 fe:00 10706945                   /usr/sbin/mariadbd
Rss:                 960 kB
Anonymous:           512 kB
VmFlags: rd wr mr mw me ac
55e512fc7000-55e512fc9000 r--p 018dc000 fe:00 10706945                   /usr/sbin/mariadbd
Rss:                   8 kB
VmFlags: rd mr mw me ac
55e512fc9000-55e5138a1000 rw-p 00000000 00:00 0
Rss:                8892 kB
VmFlags: rd wr mr mw me ac
55e518c87000-55e51948a000 rw-p 00000000 00:00 0                          [heap]
Rss:                7128 kB
VmFlags: rd wr mr mw me ac
774c20000000-774c20021000 rw-p 00000000 00:00 0
Rss:                   4 kB
VmFlags: rd wr mr mw me nr
774c20021000-774c24000000 ---p 00000000 00:00 0
Rss:                   0 kB
VmFlags: mr mw me nr
774c337ff000-774c33800000 ---p 00000000 00:00 0
Rss:                   0 kB
VmFlags: mr mw me
774c33800000-774c34000000 rw-p 00000000 00:00 0
Rss:                   8 kB
VmFlags: rd wr mr mw me ac nh
774c507fd000-774c507fe000 ---p 00000000 00:00 0
Rss:                   0 kB
VmFlags: mr mw me
774c507fe000-774c50ffe000 rw-p 00000000 00:00 0
Rss:                  16 kB
VmFlags: rd wr mr mw me ac nh
774c52000000-774c5c000000 rw-p 00000000 00:00 0
Rss:               22480 kB
Swap:                 12 kB
VmFlags: rd wr mr mw me ac dd
7f4c640c6000-7f4c64387000 rw-p 00000000 00:00 0
Rss:                2820 kB
VmFlags: rd wr mr mw me ac
7f4c66095000-7f4c660b5000 rw-s 10000000 00:10 876511                     anon_inode:[io_uring]
Rss:                 128 kB
VmFlags: rd wr sh mr mw ms dc de mm
7f4c70000000-7f4c70100000 r--s 00000000 fe:00 77                         /var/lib/mysql/with a space (deleted)
Rss:                 100 kB
VmFlags: rd mr mw me
7ffd8b10a000-7ffd8b12b000 rw-p 00000000 00:00 0                          [stack]
Rss:                  56 kB
VmFlags: rd wr mr mw me gd ac
"""


def test_smaps() -> None:
    found = smaps.parse_smaps(SMAPS)
    assert len(found) == 16
    data = found[1]
    assert (data.size, data.rss, data.path) == (0xF0000, 960 * 1024, "/usr/sbin/mariadbd")
    assert (data.file, data.private) == (True, False)
    pool = next(m for m in found if "dd" in (m.flags or ()))
    assert (pool.swap, pool.private, pool.size) == (12 * 1024, True, 160 * MIB)
    assert found[-2].path == "/var/lib/mysql/with a space (deleted)"


def test_every_mapping_has_a_kind() -> None:
    found = smaps.parse_smaps(SMAPS)
    heaps = {0x55E518C87000, 0x774C20000000, 0x7F4C640C6000}
    kinds = classify_mappings(found, [0x774C33FFF000], heaps, own_malloc=False)
    said = [kind for mapping, kind in zip(found, kinds, strict=True) if mapping.rss]
    assert said == [
        MappingKind.CODE,
        MappingKind.DATA,
        MappingKind.CODE,
        MappingKind.DATA,
        MappingKind.HEAP,
        MappingKind.HEAP,
        MappingKind.STACK,
        MappingKind.OLD_STACK,
        MappingKind.POOL,
        MappingKind.HEAP,
        MappingKind.KERNEL,
        MappingKind.FILE,
        MappingKind.STACK,
    ]


def test_under_another_malloc_what_nobody_else_claims_is_its_own() -> None:
    found = smaps.parse_smaps(SMAPS)
    kinds = dict(
        zip(
            (m.start for m in found), classify_mappings(found, [], (), own_malloc=True), strict=True
        )
    )
    assert kinds[0x7F4C640C6000] is kinds[0x55E518C87000] is MappingKind.MALLOC
    assert kinds[0x774C52000000] is MappingKind.POOL
    kinds = dict(
        zip(
            (m.start for m in found),
            classify_mappings(found, [], (), own_malloc=False),
            strict=True,
        )
    )
    assert kinds[0x7F4C640C6000] is MappingKind.REST


SIZES = st.integers(0, 1 << 36)


def whole_and_part(draw: st.DrawFn) -> tuple[int, int]:
    size = draw(SIZES)
    return size, draw(st.integers(0, size))


@st.composite
def looks(draw: st.DrawFn) -> ProcessSnapshot:
    arenas = []
    for address in range(draw(st.integers(0, 3))):
        live, free, own = (whole_and_part(draw) for _ in range(3))
        arenas.append(
            ArenaUsage(
                address=address,
                live=live[0],
                live_resident=live[1],
                free=free[0],
                free_resident=free[1],
                metadata=own[0],
                metadata_resident=own[1],
            )
        )
    blocks = [LargeBlock(i, *whole_and_part(draw)) for i in range(draw(st.integers(0, 4)))]
    own_maps = [ServerMapping(i, *whole_and_part(draw)) for i in range(draw(st.integers(0, 3)))]
    mappings = [replace(m, rss=draw(st.integers(0, m.size))) for m in smaps.parse_smaps(SMAPS)]
    kinds = classify_mappings(mappings, [], (), own_malloc=False)
    return make_snapshot(
        mappings=mappings,
        kinds=kinds,
        heap=GlibcHeap(arenas, {1: blocks}, []),
        server_mappings=own_maps,
    )


LABELS = st.lists(
    st.builds(
        OwnerMemory,
        owner=st.sampled_from(["performance_schema itself", "query cache", "sessions"]),
        bytes=SIZES,
        source=st.just("x"),
    ),
    max_size=4,
)
SAID = st.builds(
    ServerMemory,
    version=st.just("10.11-MariaDB"),
    heap=LABELS,
    tables=st.lists(SIZES, max_size=3),
    mapped_caches=st.dictionaries(
        st.sampled_from([POOL, "key cache (MyISAM)", "Aria page cache"]), SIZES
    ),
    variables=st.just({}),
    status=st.just({}),
)


@given(looks(), st.none() | SAID)
def test_a_ledger_adds_up_whatever_the_server_says(
    look: ProcessSnapshot, labels: ServerMemory | None
) -> None:
    found = build_ledger(look, labels)
    assert sum(line.resident for line in found.lines) + found.rest == found.rss == look.rss
    assert all(line.resident >= 0 for line in found.lines)
    # Names do not create memory.
    plain = build_ledger(look)
    assert sum(x.resident for x in found.lines) == sum(x.resident for x in plain.lines)
    assert found.unowned <= plain.unowned


def test_a_table_of_performance_schema_is_found_by_its_size() -> None:
    blocks = [LargeBlock(1 << 30, 2820 * 1024, 2000 * 1024), LargeBlock(2 << 30, 5 * MIB, 5 * MIB)]
    heap = GlibcHeap([ArenaUsage(address=1, live=MIB, live_resident=MIB)], {1: blocks}, [])
    mappings = smaps.parse_smaps(SMAPS)
    look = make_snapshot(
        mappings=mappings, kinds=classify_mappings(mappings, [], (), own_malloc=False), heap=heap
    )
    labels = make_server_memory(
        version="MariaDB",
        heap=[OwnerMemory(owner="performance_schema itself", bytes=2887680 + 1000, source="x")],
        tables=[2883584],
    )
    lines = {line.owner: line for line in build_ledger(look, labels).lines}
    # Its block, as far as it is resident, and 1,000 bytes of the small blocks.
    assert lines["performance_schema itself"].resident == 2000 * 1024 + 1000
    assert lines[LIVE].resident == MIB - 1000
    assert lines[MAPPED].resident == 5 * MIB


@pytest.mark.parametrize(
    ("size", "owner"),
    [(105 * MIB, "key cache (MyISAM)"), (60 * MIB, "mapped by the server itself")],
)
def test_a_cache_is_known_by_its_size(size: int, owner: str) -> None:
    mappings = smaps.parse_smaps(SMAPS)
    look = make_snapshot(
        mappings=mappings,
        kinds=classify_mappings(mappings, [], (), own_malloc=False),
        server_mappings=[ServerMapping(1, size, MIB)],
    )
    labels = make_server_memory(
        version="MariaDB", mapped_caches={"key cache (MyISAM)": 128 * MIB, POOL: 105 * MIB}
    )
    assert [line.resident for line in build_ledger(look, labels).lines if line.owner == owner] == [
        MIB
    ]


@pytest.mark.parametrize("filled", [KEYS, "key cache hot (MyISAM)"])
def test_of_two_key_caches_of_one_size_the_filled_one_has_the_pages(filled: str) -> None:
    """As MariaDB 10.11 with SET GLOBAL hot.key_buffer_size = 128 MiB, the default one's size."""
    sizes = {KEYS: 128 * MIB, "key cache hot (MyISAM)": 128 * MIB}
    # A neighbour makes a mapping a little larger.
    areas = [ServerMapping(1, 105 * MIB, 0), ServerMapping(2, 106 * MIB, 60 * MIB)]
    labels = make_server_memory(version="MariaDB", mapped_caches=sizes, filled={filled: 59 * MIB})
    look = make_snapshot(mappings=[], kinds=[], server_mappings=areas)
    lines = {line.owner: line.resident for line in build_ledger(look, labels).lines}
    assert {owner: lines.get(owner, 0) for owner in sizes} == {
        owner: 60 * MIB if owner == filled else 0 for owner in sizes
    }


def test_a_pool_in_pieces() -> None:
    """As MySQL 9.7 maps one of 2 GiB: 16 chunks of 128 MiB, each with the descriptors of
    its pages.
    """
    chunk = 128 * MIB
    variables = {"innodb_buffer_pool_chunk_size": str(chunk)}
    labels = make_server_memory(
        version="9.7.4", mapped_caches={POOL: 16 * chunk}, variables=variables
    )
    piece, other = ServerMapping(1, chunk + 3 * MIB, 20 * MIB), ServerMapping(2, 5 * MIB, 4 * MIB)
    # Two of them lie side by side.
    own = [piece] * 14 + [replace(piece, size=2 * piece.size, resident=2 * piece.resident), other]
    look = make_snapshot(mappings=[], kinds=[], server_mappings=own)
    found = {line.owner: line.resident for line in build_ledger(look, labels).lines}
    assert found == {POOL: 16 * 20 * MIB, "mapped by the server itself": 4 * MIB}
    # Half of a pool is none.
    few = replace(look, server_mappings=[piece] * 8)
    assert POOL not in {line.owner for line in build_ledger(few, labels).lines}


def test_a_pool_that_its_pages_tell_in_part() -> None:
    """MySQL counts descriptors with it, which are no pages."""
    pool = replace(smaps.parse_smaps(SMAPS)[11], flags=None, innodb=True, rss=40 * MIB)
    rest = replace(pool, start=1 << 40, end=(1 << 40) + 200 * MIB, rss=30 * MIB, innodb=False)
    look = make_snapshot(mappings=[pool, rest], kinds=[MappingKind.POOL, MappingKind.MALLOC])
    labels = make_server_memory(
        version="8.0", mapped_caches={POOL: 128 * MIB}, filled={POOL: 45 * MIB}
    )
    found = {line.owner: line.resident for line in build_ledger(look, labels).lines}
    assert found == {MappingKind.POOL: 40 * MIB, POOL: 5 * MIB, MappingKind.MALLOC: 25 * MIB}
    # Some more than there is: it goes on filling.
    more = replace(labels, filled={POOL: 71 * MIB})
    assert {line.owner: line.resident for line in build_ledger(look, more).lines} == {
        MappingKind.POOL: 40 * MIB,
        POOL: 30 * MIB,
    }


def test_log_buffers_are_apart_from_the_pool_where_their_size_tells_them() -> None:
    pool, logs = smaps.parse_smaps(SMAPS)[11], smaps.parse_smaps(SMAPS)[11]
    logs = replace(logs, start=1 << 40, end=(1 << 40) + 16 * MIB, rss=5 * MIB)
    look = make_snapshot(mappings=[pool, logs], kinds=[MappingKind.POOL, MappingKind.POOL])
    variables = {"innodb_log_buffer_size": str(16 * MIB), "innodb_buffer_pool_size": str(128 * MIB)}
    labels = make_server_memory(version="MariaDB", variables=variables)
    assert {line.owner: line.resident for line in build_ledger(look, labels).lines} == {
        POOL: pool.rss,
        LOGS: 5 * MIB,
    }
    # A pool of that size is no log buffer, and without SQL nothing tells them apart.
    small = make_server_memory(
        version="MariaDB", variables=variables | {"innodb_log_buffer_size": str(pool.size)}
    )
    assert [line.owner for line in build_ledger(look, None).lines] == [MappingKind.POOL]
    owners = [line.owner for line in build_ledger(look, small).lines]
    assert owners == [MappingKind.POOL, MappingKind.MALLOC]


def test_log_buffers_that_no_flags_tell() -> None:
    """As with a server that smaps would hold for too long: the pool by its pages, the log buffers
    by their size.
    """
    pool = replace(smaps.parse_smaps(SMAPS)[11], flags=None, innodb=True)
    logs = replace(pool, start=1 << 40, end=(1 << 40) + 16 * MIB, rss=5 * MIB, innodb=False)
    variables = {"innodb_log_buffer_size": str(16 * MIB), "innodb_buffer_pool_size": str(128 * MIB)}
    labels = make_server_memory(version="MariaDB", variables=variables)
    both = {POOL: pool.rss, LOGS: 5 * MIB}
    look = make_snapshot(mappings=[pool, logs], kinds=[MappingKind.POOL, MappingKind.MALLOC])
    assert {line.owner: line.resident for line in build_ledger(look, labels).lines} == both
    # Beside glibc's books it is the server's own.
    own = [ServerMapping(logs.start, logs.size, logs.rss)]
    walked = replace(
        look,
        kinds=[MappingKind.POOL, MappingKind.REST],
        server_mappings=own,
        heap=GlibcHeap([ArenaUsage(address=1, live=1)], {}, []),
    )
    found = build_ledger(walked, labels)
    assert ({line.owner: line.resident for line in found.lines}, found.rest) == (both, 0)
    # Three of that size are not log buffers; nor is one that flags have told.
    three = replace(
        look,
        mappings=[
            pool,
            *(replace(logs, start=n << 40, end=(n << 40) + logs.size) for n in (1, 2, 3)),
        ],
        kinds=[MappingKind.POOL, *[MappingKind.MALLOC] * 3],
    )
    told = replace(look, mappings=[pool, replace(logs, flags=frozenset({"rd"}))])
    # Nor are two that each have the size of two: one is an extent of the allocator's.
    twice = [replace(logs, start=n << 40, end=(n << 40) + 2 * logs.size) for n in (1, 2)]
    look_alikes = replace(
        look, mappings=[pool, *twice], kinds=[MappingKind.POOL, *[MappingKind.MALLOC] * 2]
    )
    for other in (three, told, look_alikes):
        assert LOGS not in {line.owner for line in build_ledger(other, labels).lines}


def test_what_is_not_known_without_smaps_is_said() -> None:
    mapping = replace(smaps.parse_smaps(SMAPS)[11], flags=None)
    look = make_snapshot(mappings=[mapping], kinds=[MappingKind.MALLOC], given_back=3 * MIB)
    [note] = build_ledger(look).notes
    assert note.startswith("3.0 MiB were lazily freed")
    assert build_ledger(replace(look, given_back=0)).notes == []


def test_a_stack_without_a_thread_has_the_size_of_the_others() -> None:
    """Kernels before 6.7 do not mark them, and MariaDB's are not of 8 MiB."""
    small = 292 << 10
    mappings = [
        replace(m, flags=None, end=m.start + small if m.size == 8 * MIB else m.end)
        for m in smaps.parse_smaps(SMAPS)
    ]
    assert (
        classify_mappings(mappings, [0x774C33800000 + 4096], (), own_malloc=True).count(
            MappingKind.OLD_STACK
        )
        == 1
    )
    assert classify_mappings(mappings, [], (), own_malloc=True).count(MappingKind.OLD_STACK) == 0


def test_a_block_known_by_its_size_alone_is_nothing_without_one() -> None:
    heap = GlibcHeap(
        [ArenaUsage(address=1, live=MIB, live_resident=MIB)],
        {1: [LargeBlock(1 << 30, 16 * MIB + 4096, 2 * MIB)]},
        [],
    )
    look = make_snapshot(
        mappings=smaps.parse_smaps(SMAPS), kinds=[MappingKind.REST] * 16, heap=heap
    )
    for size, there in ((16 * MIB, 2 * MIB), (64 * MIB, 0)):
        found = build_ledger(
            look,
            make_server_memory(
                version="8.0",
                heap=[OwnerMemory(owner=LOGS, bytes=size, source="x", single_block=True)],
            ),
        )
        assert sum(line.resident for line in found.lines if line.owner == LOGS) == there
        assert sum(line.resident for line in found.lines if line.owner == LIVE) == MIB


def test_links_and_hash_of_a_cache() -> None:
    """Of MariaDB 10.11 with 128 MiB each: blocks of 24,485,888 and 6,033,408 bytes, all
    resident.
    """
    heap = GlibcHeap(
        [ArenaUsage(address=1, live=MIB, live_resident=MIB)],
        {1: [LargeBlock(1 << 30, s, s) for s in (24485888, 6033408, 4198400)]},
        [],
    )
    look = make_snapshot(
        mappings=smaps.parse_smaps(SMAPS), kinds=[MappingKind.REST] * 16, heap=heap
    )
    own = {"key cache (MyISAM)": 128 * MIB, "Aria page cache": 128 * MIB}
    lines = {
        line.owner: line.resident
        for line in build_ledger(
            look,
            make_server_memory(version="10.11-MariaDB", mapped_caches=own),
        ).lines
    }
    assert lines["key cache (MyISAM), links and hash"] == 24485888
    assert lines["Aria page cache, links and hash"] == 6033408
    assert (lines[MAPPED], lines[LIVE]) == (4198400, MIB)


def test_a_cache_that_no_size_tells_has_what_it_has_filled() -> None:
    """As with MySQL's pool under another malloc: the kernel has merged its mapping with the
    malloc's.
    """
    mapping = replace(smaps.parse_smaps(SMAPS)[11], rss=90 * MIB)
    look = make_snapshot(mappings=[mapping], kinds=[MappingKind.MALLOC])
    labels = make_server_memory(
        version="8.0",
        mapped_caches={POOL: 128 * MIB},
        filled={POOL: 40 * MIB, "Aria page cache": 100 * MIB},
    )
    found = build_ledger(look, labels)
    assert {line.owner: line.resident for line in found.lines} == {
        POOL: 40 * MIB,
        MappingKind.MALLOC: 50 * MIB,
    }
    assert found.unowned == 50 * MIB
    # A pool that its flags have told has its line already.
    marked = replace(
        look,
        mappings=[mapping, replace(mapping, start=1 << 40, end=1 << 41)],
        kinds=[MappingKind.MALLOC, MappingKind.POOL],
    )
    assert POOL not in {line.owner for line in build_ledger(marked, labels).lines}


def test_lazily_freed_pages_are_a_line_of_their_own() -> None:
    mapping = replace(smaps.parse_smaps(SMAPS)[11], lazy=4 * MIB, rss=20 * MIB)
    look = make_snapshot(mappings=[mapping], kinds=[MappingKind.MALLOC])
    assert {line.owner: line.resident for line in build_ledger(look).lines} == {
        LAZY: 4 * MIB,
        MappingKind.MALLOC: 16 * MIB,
    }


VARIABLES = {
    "innodb_buffer_pool_size": str(1024 * MIB),
    "max_connections": "100",
    "thread_stack": str(MIB),
    "sort_buffer_size": str(2 * MIB),
    "tmp_table_size": str(64 * MIB),
    "max_heap_table_size": str(16 * MIB),
    "global_connection_memory_limit": str(512 * MIB),
    "connection_memory_limit": "18446744073709551615",
    "version": "8.0.33",
}


def test_what_the_configuration_allows() -> None:
    found = compute_bounds(VARIABLES, catalogue())
    assert found.once == 1024 * MIB
    assert (found.connection, found.connections) == (MIB, 100)
    assert found.plain == 1124 * MIB
    assert found.statement == (2 + 16) * MIB
    assert found.worst == 1124 * MIB + 100 * 18 * MIB
    assert found.caps == [
        "global_connection_memory_limit = 512 MiB for all connections together, but those with CONNECTION_ADMIN; "
        "not in force without global_connection_memory_tracking = ON"
    ]
    assert found.capped == found.worst
    assert "sort_buffer_size (2 MiB): each sort of a statement, its subqueries' too" in found.more


def test_limits_in_force_bound_the_worst_case() -> None:
    found = compute_bounds(VARIABLES | {"global_connection_memory_tracking": "ON"}, catalogue())
    assert found.capped == (1024 + 512) * MIB < found.worst
    found = compute_bounds(VARIABLES | {"max_session_mem_used": str(4 * MIB)}, catalogue())
    assert found.capped == (1024 + 100 * 4) * MIB
    assert judge_bounds(found, AvailableMemory(2 * 2**30, None), MIB).startswith(
        "the server's own limits keep one of each"
    )
    assert (
        compute_bounds(
            VARIABLES | {"max_session_mem_used": "9223372036854775807"}, catalogue()
        ).each
        is None
    )


def test_temptable_has_one_store_for_all_connections() -> None:
    theirs = {
        "internal_tmp_mem_storage_engine": "TempTable",
        "temptable_max_ram": str(300 * MIB),
        "temptable_max_mmap": str(200 * MIB),
    }
    found = compute_bounds(VARIABLES | theirs, catalogue())
    assert (found.shared, found.statement) == (500 * MIB, 2 * MIB)
    assert (
        compute_bounds(VARIABLES | theirs | {"temptable_use_mmap": "OFF"}, catalogue()).shared
        == 300 * MIB
    )
    assert (
        compute_bounds(
            VARIABLES | theirs | {"internal_tmp_mem_storage_engine": "MEMORY"}, catalogue()
        ).shared
        == 0
    )


def test_what_a_server_can_still_grow_to() -> None:
    found = compute_bounds(VARIABLES, catalogue())
    # An empty server, and one whose pool is full and whose connections are all there.
    assert found.compute_reach(0, 0, 0) == found.worst
    assert found.compute_reach(2000 * MIB, 1024 * MIB, 100) == 2000 * MIB + 100 * 18 * MIB


@pytest.mark.parametrize(
    ("room", "rss", "says"),
    [
        (AvailableMemory(64 * 2**30, None), MIB, "fits the 64.0 GiB of the machine"),
        (
            AvailableMemory(64 * 2**30, 2 * 2**30),
            MIB,
            "would need more than the 2.0 GiB of the cgroup",
        ),
        (AvailableMemory(2**30, None), MIB, "without a big query"),
        (AvailableMemory(64 * 2**30, 2 * 2**30), 2040 * MIB, "the OOM killer is near"),
    ],
)
def test_will_it_be_killed(room: AvailableMemory, rss: int, says: str) -> None:
    assert says in judge_bounds(compute_bounds(VARIABLES, catalogue()), room, rss)
