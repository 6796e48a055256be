"""What InnoDB allocates at its start past all instruments, by the size of its pool: hash tables
(hash0hash), and in MySQL up to
8.0 events, 3 for each page of the pool, of its mutex and its lock (os_event_create).

A heap probe saw it in MySQL 8.0.33; glibc's large blocks show the tables in 9.7.4 and MariaDB
10.11.19. Locks have three tables of 5 cells for each page (lock_sys_create). In MySQL the adaptive
hash index has a cell of 8 bytes in every 512 bytes of the pool, in innodb_adaptive_hash_index_parts
tables, whether it is on or off. In MariaDB, from 10.6 on, 7 cells share 64 bytes with a latch, and
the pool's own table has 2 cells for each page.
"""

import re

from dballoc.explain.sources.server_memory import POOL_EVENT, Label, Labels, number

TABLES, EVENTS = "InnoDB hash tables", "InnoDB events of the buffer pool's pages"
_EVENT, _TABLE = "memory/innodb/os0event", "memory/innodb/hash0hash"
_CELL, _WITH_LATCH = 8, 64 / 7
_LOCKS, _LOCK_TABLES, _OF_POOL, _EVENTS_OF_PAGE = 5, 3, 2, 3
_POOL_OF_CELL = 512
_LATCHES = (10, 6)
_NEAR, _NEAR_POWER = 0.002, 1.05


def labels(said: Labels) -> list[Label]:
    """None where the instruments do not count: then nothing is known of what they leave
    out. Pure.
    """
    if not said.counted:
        return []
    sizes = _of_mariadb(said) if said.mariadb else _of_mysql(said)
    found = []
    # MySQL 9.7.4 has the instrument, and counts nothing but the tables' heads; MariaDB those of its
    # dictionary.
    if sizes and (said.mariadb or said.counted.get(_TABLE, (0, 0))[1] < sum(sizes) // 2):
        found.append(
            Label(
                owner=TABLES,
                bytes=sum(sizes),
                source="by the size of the pool",
                sizes=sizes,
                near=_NEAR,
                zeroed=True,
            )
        )
    blocks, size = said.counted.get(_EVENT, (0, 0))
    events = _EVENTS_OF_PAGE * _pages(said)
    if 0 < blocks < events and not said.mariadb:
        found.append(
            Label(owner=EVENTS, bytes=events * size // blocks, source="by the size of the pool")
        )
    return found


def _of_mysql(said: Labels) -> tuple[int, ...]:
    if POOL_EVENT not in said.counted:
        return ()
    pool, parts = (
        number(said.variables, "innodb_buffer_pool_size"),
        number(said.variables, "innodb_adaptive_hash_index_parts"),
    )
    of_index = int(_CELL * cells(pool // _POOL_OF_CELL // parts)) if parts else 0
    return (*[of_index] * parts, *[int(_CELL * cells(_LOCKS * _pages(said)))] * _LOCK_TABLES)


def _of_mariadb(said: Labels) -> tuple[int, ...]:
    version = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", said.version)
    pages = number(said.status, "innodb_buffer_pool_pages_total")
    if not version or (int(version[1]), int(version[2])) < _LATCHES or not pages:
        return ()
    return tuple(
        int(_WITH_LATCH * cells(of)) for of in (*[_LOCKS * pages] * _LOCK_TABLES, _OF_POOL * pages)
    )


def _pages(said: Labels) -> int:
    return number(said.variables, "innodb_buffer_pool_size") // (
        number(said.variables, "innodb_page_size") or 16384
    )


def cells(wanted: int) -> float:
    """How many InnoDB makes of so many, to about 0.2 %: a prime that is a little larger, and not
    near a power of 2 (ut0rnd.cc, ut_find_prime; the factors are its constants, multiplied).
    """
    over = wanted / (1 << wanted.bit_length() - 1)
    return (wanted + 100) * (
        1.0550 if over < _NEAR_POWER else 1.1279 if over > 2 * (2 - _NEAR_POWER) else 1.0133
    )
