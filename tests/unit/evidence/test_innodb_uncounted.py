"""What InnoDB's instruments leave out, by the size of the pool: as seen in MySQL 8.0.33 and MariaDB
10.11.19.
"""

import pytest
from example_server_memory import make_server_memory

from dballoc.evidence.sql import innodb_uncounted
from dballoc.evidence.sql.server_memory import POOL_EVENT, OwnerMemory, ServerMemory

MIB = 1 << 20


def said(pool: int, version: str = "8.0.33", events: int = 6628) -> ServerMemory:
    variables = {
        "innodb_buffer_pool_size": str(pool),
        "innodb_adaptive_hash_index_parts": "8",
        "innodb_page_size": "16384",
    }
    counted = {POOL_EVENT: (1, pool + 3 * MIB), "memory/innodb/os0event": (events, events * 136)}
    return make_server_memory(version=version, variables=variables, counted=counted)


@pytest.mark.parametrize(
    ("pool", "index", "locks"), [(128 * MIB, 278528, 335872), (2048 * MIB, 4427776, 5316608)]
)
def test_hash_tables_have_a_size_that_tells_them(pool: int, index: int, locks: int) -> None:
    """glibc's blocks of them, whole pages."""
    tables, events = innodb_uncounted.estimate_uncounted_memory(said(pool))
    assert len(tables.sizes) == 11
    for size, block in zip(tables.sizes, [index] * 8 + [locks] * 3, strict=True):
        assert size * (1 - tables.near) <= block <= size * (1 + tables.near) + 4096 + 80
    assert events.bytes == 3 * 136 * pool // 16384


def test_what_is_counted_is_not_told_twice() -> None:
    newer = said(128 * MIB, "9.7.4", 3 * 8192)
    newer.counted["memory/innodb/hash0hash"] = (1, 1952)
    [tables] = innodb_uncounted.estimate_uncounted_memory(newer)
    assert tables.owner == innodb_uncounted.TABLES
    found = said(128 * MIB)
    found.counted["memory/innodb/hash0hash"] = (11, 4 * MIB)
    assert [label.owner for label in innodb_uncounted.estimate_uncounted_memory(found)] == [
        innodb_uncounted.EVENTS
    ]


@pytest.mark.parametrize(
    ("pages", "locks", "own"), [(64896, 3010560, None), (129792, 6017024, 2678784)]
)
def test_mariadbs_tables_have_latches(pages: int, locks: int, own: int | None) -> None:
    """Pools of 1 and 2 GiB."""
    status = {"innodb_buffer_pool_pages_total": str(pages)}

    def of(version: str) -> list[OwnerMemory]:
        return innodb_uncounted.estimate_uncounted_memory(
            make_server_memory(
                version=version, status=status, counted={"memory/innodb/hash0hash": (6, 50 * MIB)}
            )
        )

    [tables] = of("10.11.19-MariaDB")
    for size, block in zip(tables.sizes, [locks] * 3 + [own or 0], strict=True):
        assert (
            not block or size * (1 - tables.near) <= block <= size * (1 + tables.near) + 4096 + 80
        )
    assert of("5.5.5-10.6.1-MariaDB") == [tables]
    assert of("10.5.28-MariaDB") == []


def test_nothing_is_known_of_others() -> None:
    assert (
        innodb_uncounted.estimate_uncounted_memory(said(128 * MIB, "10.11.19-MariaDB")) == []
    )  # no such status
    assert (
        innodb_uncounted.estimate_uncounted_memory(
            make_server_memory(version="8.0.33", heap=[OwnerMemory(owner="x", bytes=1, source="y")])
        )
        == []
    )


@pytest.mark.parametrize(
    ("number", "factor"), [(1 << 19, 1.055), (5 << 17, 1.0133), ((1 << 20) - 9000, 1.128)]
)
def test_a_table_is_not_near_a_power_of_2(number: int, factor: float) -> None:
    assert innodb_uncounted.count_cells(number) == pytest.approx(factor * number, rel=0.001)
