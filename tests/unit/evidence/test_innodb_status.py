"""BUFFER POOL AND MEMORY in every layout that there is."""

import time

import pytest
from example_innodb_status import AFTER, BEFORE, MYSQL_55, PERCONA

from dballoc.evidence.sql.innodb_status import parse_buffer_pool
from dballoc.explain.checklist.checklist import list_pool_rows

# MySQL 8.0 and 9.x with a pool of two instances.
MYSQL_8 = """Total large memory allocated 0
Dictionary memory allocated 4701186
Buffer pool size   262112
Free buffers       42066
Database pages     217290
Old database pages 80219
Modified db pages  7
Pending reads      0
Pending writes: LRU 0, flush list 0, single page 0
Pages made young 12, not young 0
0.00 youngs/s, 0.00 non-youngs/s
Pages read 217217, created 683, written 32681
Buffer pool hit rate 1000 / 1000, young-making rate 0 / 1000 not 0 / 1000
LRU len: 217290, unzip_LRU len: 0
----------------------
INDIVIDUAL BUFFER POOL INFO
----------------------
---BUFFER POOL 0
Buffer pool size   131056
Free buffers       21033
Database pages     108645
---BUFFER POOL 1
Buffer pool size   131056
Free buffers       21033
Database pages     108645
"""

# Debian's MariaDB 10.11.19, soon after its first start.
MARIADB = """Total large memory allocated 167772160
Dictionary memory allocated 848032
Buffer pool size   8112
Free buffers       7834
Database pages     278
Old database pages 0
Modified db pages  147
Percent of dirty pages(LRU & free pages): 1.812
Max dirty pages percent: 90.000
Pending reads 0
Pending writes: LRU 0, flush list 0
Pages made young 0, not young 0
0.00 youngs/s, 0.00 non-youngs/s
Pages read 0, created 438, written 0
0.00 reads/s, 437.56 creates/s, 0.00 writes/s
Buffer pool hit rate 1000 / 1000, young-making rate 0 / 1000 not 0 / 1000
Pages read ahead 0.00/s, evicted without access 0.00/s, Random read ahead 0.00/s
LRU len: 278, unzip_LRU len: 0
I/O sum[0]:cur[0], unzip sum[0]:cur[0]
"""

PAGES = ("pages", "free", "database", "old", "modified")


@pytest.mark.parametrize(
    ("text", "pages", "figures"),
    [
        (
            MYSQL_55,
            (8191, 8036, 155, 0, 0),
            {"allocated": 137363456, "additional": 0, "dictionary": 29282, "read": 155, "lru": 155},
        ),
        (
            PERCONA,
            (8191, 7481, 707, 280, 0),
            {"allocated": 137363456, "read_views": 88, "dictionary": 174695, "bytes": 134201344},
        ),
        (
            MYSQL_8,
            (262112, 42066, 217290, 80219, 7),
            {"allocated": 0, "dictionary": 4701186, "read": 217217, "written": 32681},
        ),
        (
            MARIADB,
            (8112, 7834, 278, 0, 147),
            {"allocated": 167772160, "dictionary": 848032, "created": 438, "pending_reads": 0},
        ),
    ],
    ids=["MySQL 5.5", "Percona", "MySQL 8", "MariaDB"],
)
def test_every_layout(text: str, pages: tuple[int, ...], figures: dict[str, int]) -> None:
    found = parse_buffer_pool(BEFORE + text + AFTER)
    assert found
    assert tuple(found.figures[name] for name in PAGES) == pages
    assert {name: found.figures[name] for name in figures} == figures


def test_hash_tables_of_percona() -> None:
    found = parse_buffer_pool(BEFORE + PERCONA + AFTER)
    assert found
    assert found.tables == {
        "Adaptive hash index": (2266736, 2213368, 53368),
        "Page hash": (139112, None, None),
        "Dictionary cache": (729463, 554768, 174695),
        "File system": (824800, 812272, 12528),
        "Lock system": (333248, 332872, 376),
        "Recovery system": (0, 0, 0),
    }
    assert found.hit_rate == 0.998


def test_instances_are_apart_from_the_whole() -> None:
    found = parse_buffer_pool(BEFORE + MYSQL_8 + AFTER)
    assert found
    assert [pool.figures["database"] for pool in found.instances] == [108645, 108645]
    assert found.figures["database"] == 217290


def test_as_a_table() -> None:
    found = parse_buffer_pool(BEFORE + MARIADB + AFTER)
    assert found
    rows = {name: (value, size) for name, value, size in list_pool_rows(found, 16384)}
    assert rows["memory allocated"] == (None, 167772160)
    assert rows["database pages"] == (278, 278 * 16384)
    assert rows["LRU length, pages"] == (278, 278 * 16384)
    assert rows["pending reads"] == (0, None)
    assert rows["hit rate"] == (1.0, None)


def test_hash_tables_have_their_parts_in_the_table() -> None:
    found = parse_buffer_pool(BEFORE + PERCONA + AFTER)
    assert found
    rows = {name: size for name, _, size in list_pool_rows(found, 16384)}
    assert rows["hash tables: Adaptive hash index"] == 2266736
    assert rows["hash tables: Adaptive hash index, constant part"] == 2213368
    assert rows["hash tables: Adaptive hash index, variable part"] == 53368
    assert "hash tables: Page hash, constant part" not in rows
    assert rows["in additional pool"] == 0


@pytest.mark.parametrize("text", ["", "ERROR", AFTER, "BUFFER POOL AND MEMORY"])
def test_without_such_a_section(text: str) -> None:
    found = parse_buffer_pool(text)
    assert found is None or found.figures == {}


@pytest.mark.parametrize("line", ["x{}x", " x{}x", " x 1{}x"])
def test_a_line_of_spaces_takes_no_time_that_grows_with_its_square(line: str) -> None:
    began = time.process_time()
    text = f"{BEFORE}{line.format(' ' * 40_000)}\nBuffer pool size 7\n{AFTER}"
    pool = parse_buffer_pool(text)
    assert time.process_time() - began < 5
    assert pool is not None
    assert pool.figures == {"pages": 7}
