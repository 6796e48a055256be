"""Suspects for memory that nobody claims: what fits in size and number is named, and nothing is
called likely that only stays below a bound.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.catalogue import suspects as catalogue
from dballoc.explain.verdicts.unowned import Clues, Suspect, find_suspects
from dballoc.process.heaps.heap_walk import BlockGroup

MIB = 1 << 20
# As MariaDB has them by default, with 20 sessions of which none runs a statement.
NUMBERS = {
    "sessions": 20,
    "running": 0,
    "binlog_cache_size": 32 << 10,
    "sort_buffer_size": 2 * MIB,
    "join_buffer_size": 256 << 10,
    "tmp_table_size": 16 * MIB,
    "max_allowed_packet": 16 * MIB,
    "open_tables": 30,
}


def blocks(count: int, size: int) -> BlockGroup:
    return BlockGroup(size=size, count=count, bytes=count * size)


def find(
    unexplained: int, *groups: BlockGroup, walked: bool = True, **numbers: int
) -> list[Suspect]:
    clues = Clues(
        unexplained=unexplained,
        groups=list(groups) if walked else None,
        numbers=NUMBERS | numbers,
    )
    return find_suspects(clues, catalogue())


@pytest.mark.parametrize(
    ("groups", "numbers", "name", "likelihood"),
    [
        ([blocks(20, 16 * MIB + 4096)], {"binlog_cache_size": 16 * MIB}, "binary log caches of transactions", "likely"),
        ([blocks(19, 8 * MIB)], {"memory_tables": 1, "memory_tables_bytes": 170 * MIB}, "MEMORY tables", "likely"),
        ([blocks(12, 14 * MIB)], {"max_allowed_packet": 64 * MIB}, "network buffers of sessions", "possible"),
        ([blocks(9, 16 * MIB)], {"running": 9, "read_buffer_size": 16 * MIB}, "read buffers of table scans", "likely"),
        ([blocks(6, 20 * MIB)], {"running": 6, "sort_buffer_size": 32 * MIB}, "sort buffers", "possible"),
        ([blocks(6000, 32 << 10)], {"prepared_stmt_count": 8000, "open_tables": 1}, "prepared statements", "possible"),
        ([], {"routines": 60, "routines_text": 100_000, "open_tables": 1, "sessions": 6}, "stored programs of sessions", "possible"),
        ([], {"triggers": 3, "triggers_text": 20_000}, "triggers of open tables", "possible"),
    ],
)  # fmt: skip
def test_what_fits_is_first(
    groups: list[BlockGroup], numbers: dict[str, int], name: str, likelihood: str
) -> None:
    first = find(180 * MIB, *groups, **numbers)[0]
    assert (first.name, first.likelihood) == (name, likelihood)
    assert first.bound
    assert first.confirm


def test_a_suspect_shows_its_size_and_number_beside_what_the_heap_has() -> None:
    [first, *_] = find(320 * MIB, blocks(20, 16 * MIB), binlog_cache_size=16 * MIB)
    assert first.fit == "20 blocks of 16.0 MiB in the heap; binlog_cache_size=16.0 MiB, 20 sessions"
    assert first.bytes == 320 * MIB


@pytest.mark.parametrize(
    ("groups", "numbers"),
    [
        ([blocks(21, 16 * MIB)], {"binlog_cache_size": 16 * MIB}),
        ([blocks(20, 15 * MIB)], {"binlog_cache_size": 16 * MIB}),
        ([blocks(20, 17 * MIB)], {"binlog_cache_size": 16 * MIB}),
        ([blocks(20, 16 * MIB)], {}),
    ],
    ids=["more blocks than sessions", "too small", "too large", "the default"],
)
def test_what_does_not_fit_is_not_likely(groups: list[BlockGroup], numbers: dict[str, int]) -> None:
    named = find(320 * MIB, *groups, **numbers)
    assert not [s for s in named if s.name.startswith("binary") or s.likelihood == "likely"]


def test_no_suspect_runs_statements_where_none_runs() -> None:
    names = {s.name for s in find(60 * MIB, blocks(15, 4 * MIB), sort_buffer_size=32 * MIB)}
    assert names
    assert not {"sort buffers", "join buffers", "temporary tables of statements"} & names


def test_one_block_alone_may_be_anything() -> None:
    assert "network buffers of sessions" not in {
        s.name for s in find(90 * MIB, blocks(1, 15 * MIB))
    }


def test_where_no_heap_is_walked_only_what_was_raised_is_a_suspect_and_nothing_is_likely() -> None:
    assert [s.name for s in find(320 * MIB, walked=False, open_tables=0)] == []
    [first] = find(320 * MIB, walked=False, open_tables=0, binlog_cache_size=16 * MIB)
    assert (first.name, first.likelihood) == ("binary log caches of transactions", "possible")
    assert first.fit == "binlog_cache_size=16.0 MiB, 20 sessions: up to 320 MiB"


def test_key_caches_hold_the_indexes_of_myisam_tables_at_most() -> None:
    """MySQL tells no key cache but the default one."""
    for walked in (True, False):
        [found] = find(
            100 * MIB, walked=walked, open_tables=0, myisam_tables=3, index_bytes=80 * MIB
        )
        assert found.name == "key caches beside the default one"
        assert found.likelihood == "possible"
        assert found.fit == "3 MyISAM tables with indexes: up to 80.0 MiB"


@given(
    st.integers(1, 2**45),
    st.lists(st.builds(blocks, st.integers(1, 10**6), st.integers(4096, 2**40)), max_size=32),
    st.dictionaries(
        st.sampled_from(
            [*NUMBERS, "memory_tables_bytes", "routines_text", "triggers_text", "lock_bytes"]
        ),
        st.integers(0, 2**63),
    ),
    st.booleans(),
)
def test_there_are_five_at_most_whatever_a_server_says(
    unexplained: int, groups: list[BlockGroup], numbers: dict[str, int], walked: bool
) -> None:
    named = find(unexplained, *groups, walked=walked, **numbers)
    assert len(named) <= 5
    assert all(0 <= s.rank <= 1 and 0 < s.bytes <= unexplained for s in named)
