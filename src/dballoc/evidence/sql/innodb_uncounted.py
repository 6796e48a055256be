"""Estimate what InnoDB allocates at its start and no memory instrument counts, from the size of its
pool: hash tables (hash0hash), and in MySQL up to 8.0 events, 3 for each page of the pool, for its
mutex and its lock (os_event_create).

The heap probe shows both in MySQL 8.0.33; glibc's large blocks show the tables in 9.7.4 and MariaDB
10.11.19. Locks have three tables of 5 cells for each page (lock_sys_create). In MySQL the adaptive
hash index has a cell of 8 bytes for every 512 bytes of the pool, in
innodb_adaptive_hash_index_parts tables, whether it is on or off. In MariaDB, from 10.6 on, 7 cells
share 64 bytes with a latch, and the pool's own table has 2 cells for each page.
"""

import re

from dballoc.evidence.sql.server_memory import POOL_EVENT, OwnerMemory, ServerMemory, parse_number

TABLES, EVENTS = "InnoDB hash tables", "InnoDB events of the buffer pool's pages"
_EVENT, _TABLE = "memory/innodb/os0event", "memory/innodb/hash0hash"
_CELL, _WITH_LATCH = 8, 64 / 7
_LOCKS, _LOCK_TABLES, _OF_POOL, _EVENTS_OF_PAGE = 5, 3, 2, 3
_POOL_OF_CELL = 512
_LATCHES = (10, 6)
_NEAR, _NEAR_POWER = 0.002, 1.05


def estimate_uncounted_memory(server: ServerMemory) -> list[OwnerMemory]:
    """Return the hash tables and the events; nothing where the instruments do not count, as then
    nothing is known of what they leave out. Pure.
    """
    if not server.counted:
        return []
    sizes = _list_mariadb_tables(server) if server.mariadb else _list_mysql_tables(server)
    uncounted = []
    # MySQL 9.7.4's instrument counts only the tables' headers, MariaDB's only the tables of its
    # dictionary.
    if sizes and (server.mariadb or server.counted.get(_TABLE, (0, 0))[1] < sum(sizes) // 2):
        uncounted.append(
            OwnerMemory(
                owner=TABLES,
                bytes=sum(sizes),
                source="by the size of the pool",
                sizes=sizes,
                near=_NEAR,
                zeroed=True,
            )
        )
    blocks, size = server.counted.get(_EVENT, (0, 0))
    events = _EVENTS_OF_PAGE * _count_pages(server)
    if 0 < blocks < events and not server.mariadb:
        uncounted.append(
            OwnerMemory(
                owner=EVENTS, bytes=events * size // blocks, source="by the size of the pool"
            )
        )
    return uncounted


def _list_mysql_tables(server: ServerMemory) -> tuple[int, ...]:
    """List the bytes of each of MySQL's hash tables."""
    if POOL_EVENT not in server.counted:
        return ()
    pool, parts = (
        parse_number(server.variables, "innodb_buffer_pool_size"),
        parse_number(server.variables, "innodb_adaptive_hash_index_parts"),
    )
    index_table = int(_CELL * count_cells(pool // _POOL_OF_CELL // parts)) if parts else 0
    return (
        *[index_table] * parts,
        *[int(_CELL * count_cells(_LOCKS * _count_pages(server)))] * _LOCK_TABLES,
    )


def _list_mariadb_tables(server: ServerMemory) -> tuple[int, ...]:
    """List the bytes of each of MariaDB's hash tables; none before 10.6."""
    version = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", server.version)
    pages = parse_number(server.status, "innodb_buffer_pool_pages_total")
    if not version or (int(version[1]), int(version[2])) < _LATCHES or not pages:
        return ()
    return tuple(
        int(_WITH_LATCH * count_cells(least))
        for least in (*[_LOCKS * pages] * _LOCK_TABLES, _OF_POOL * pages)
    )


def _count_pages(server: ServerMemory) -> int:
    return parse_number(server.variables, "innodb_buffer_pool_size") // (
        parse_number(server.variables, "innodb_page_size") or 16384
    )


def count_cells(least: int) -> float:
    """Return how many cells a table has for which InnoDB asks for ``least``, to about 0.2 %: a
    prime that is a little larger, and not near a power of 2 (ut0rnd.cc, ut_find_prime; the factors
    are its constants, multiplied).
    """
    over = least / (1 << least.bit_length() - 1)
    return (least + 100) * (
        1.0550 if over < _NEAR_POWER else 1.1279 if over > 2 * (2 - _NEAR_POWER) else 1.0133
    )
