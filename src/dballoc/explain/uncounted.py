"""What MySQL's InnoDB allocates at its start past all instruments, by the size of its pool; as a heap probe saw it in 8.0.33,
and glibc's large blocks show it in 9.7.4.

Hash tables (hash0hash, 8 bytes a cell): the adaptive hash index has one in every 512 bytes of the pool, in
innodb_adaptive_hash_index_parts tables, whether it is on or off (btr_search_sys_create); locks have three tables of 5 cells for
each page (lock_sys_create). Events (os_event_create): 3 for each page of the pool, of its mutex and its lock; newer versions
count them.
"""

from dballoc.explain.labels import POOL_EVENT, Label, Labels

TABLES, EVENTS = "InnoDB hash tables", "InnoDB events of the buffer pool's pages"
_EVENT, _TABLE = "memory/innodb/os0event", "memory/innodb/hash0hash"
_CELL, _LOCKS, _LOCK_TABLES, _EVENTS_OF_PAGE = 8, 5, 3, 3
_POOL_OF_CELL = 512
_NEAR, _NEAR_POWER = 0.002, 1.05


def labels(said: Labels) -> list[Label]:
    """None of a MariaDB, or where the pool's instrument is off. Pure."""
    if said.mariadb or POOL_EVENT not in said.counted:
        return []

    def number(name: str) -> int:
        value = said.variables.get(name, "")
        return int(value) if value.isdigit() else 0

    pool, parts = number("innodb_buffer_pool_size"), number("innodb_adaptive_hash_index_parts")
    pages = pool // (number("innodb_page_size") or 16384)
    found = []
    of_index = int(_CELL * cells(pool // _POOL_OF_CELL // parts)) if parts else 0
    sizes = (*[of_index] * parts, *[int(_CELL * cells(_LOCKS * pages))] * _LOCK_TABLES)
    # 9.7.4 has the instrument, and counts nothing but the tables' heads.
    if said.counted.get(_TABLE, (0, 0))[1] < sum(sizes) // 2:
        found.append(Label(TABLES, sum(sizes), "by the size of the pool", sizes=sizes, near=_NEAR, zeroed=True))
    blocks, size = said.counted.get(_EVENT, (0, 0))
    if 0 < blocks < _EVENTS_OF_PAGE * pages:
        found.append(Label(EVENTS, _EVENTS_OF_PAGE * pages * size // blocks, "by the size of the pool"))
    return found


def cells(number: int) -> float:
    """How many InnoDB makes of so many, to about 0.2 %: a prime that is a little larger, and not near a power of 2 (ut0rnd.cc,
    ut_find_prime; the factors are its constants, multiplied).
    """
    over = number / (1 << number.bit_length() - 1)
    return (number + 100) * (1.0550 if over < _NEAR_POWER else 1.1279 if over > 2 * (2 - _NEAR_POWER) else 1.0133)
