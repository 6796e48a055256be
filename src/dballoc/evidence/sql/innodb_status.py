"""Parse the section BUFFER POOL AND MEMORY of SHOW ENGINE INNODB STATUS, of MySQL 5.0 to 9.x,
MariaDB and Percona Server. Pure.

Layouts: MySQL's manual ("Monitoring the Buffer Pool Using the InnoDB Standard Monitor"), and what
the servers print; that of Percona and old MariaDB (XtraDB), with InnoDB's hash tables: Percona
Server, "Extended SHOW ENGINE INNODB STATUS".
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_TITLE = "BUFFER POOL AND MEMORY"
_RULE = re.compile(r"-{3,}")
_INSTANCE = re.compile(r"---BUFFER POOL (\d{1,20})")

# Characters: InnoDB cuts its report at 1 MB, but a compromised server may send anything.
_LONGEST = 4_000_000

# Lines of one name and one number, and the short name of each.
_PLAIN = {
    "Total memory allocated": "allocated",
    "Total large memory allocated": "allocated",
    "Total memory allocated by read views": "read_views",
    "Dictionary memory allocated": "dictionary",
    "Buffer pool size": "pages",
    "Buffer pool size, bytes": "bytes",
    "Free buffers": "free",
    "Database pages": "database",
    "Old database pages": "old",
    "Modified db pages": "modified",
    "Pending reads": "pending_reads",
    "LRU len": "lru",
}
# Names are words with one space between them. No character fits in two ways, so that the time is
# linear in the length of a line.
_NAME = r"(\S++(?: \S++)*?)\s++"
_NUMBERED = re.compile(_NAME + r"(\d{1,20})(?=[;,\s]|$)(.*)")
_ADDITIONAL = re.compile(r"in additional pool allocated (\d{1,20})")
_HASH = re.compile(
    r"\s++" + _NAME + r"(\d{1,20})\s*+(?:\((\d{1,20}) \+ (\d{1,20})\)|\(buffer pool 0 only\))?$"
)
_PAGES = re.compile(r"Pages read (\d{1,20}), created (\d{1,20}), written (\d{1,20})")
_RATE = re.compile(r"Buffer pool hit rate (\d{1,20}) / (\d{1,20})")


class HashTable(NamedTuple):
    """One of InnoDB's own hash tables, bytes. ``constant``: what it takes empty, and ``variable``:
    what its content adds; None where the server does not tell them apart.
    """

    total: int
    constant: int | None = None
    variable: int | None = None


@dataclass
class BufferPool:
    """The buffer pool's numbers. ``figures``: by short name, in pages except ``allocated``,
    ``additional``, ``read_views``, ``dictionary`` and ``bytes``; ``tables``: InnoDB's own hash
    tables; ``hit_rate``: of page gets since InnoDB's last report, None without any; ``instances``:
    those of a pool that is divided.
    """

    figures: dict[str, int] = field(default_factory=dict)
    tables: dict[str, HashTable] = field(default_factory=dict)
    hit_rate: float | None = None
    instances: list["BufferPool"] = field(default_factory=list)


def parse_buffer_pool(status: str) -> BufferPool | None:
    """Return the pool in the text of SHOW ENGINE INNODB STATUS; None if it has no such section, as
    when InnoDB is off.
    """
    lines = status[:_LONGEST].split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip() == _TITLE), None)
    if start is None:
        return None
    total = current = BufferPool()
    for i in range(start + 2, len(lines)):
        line = lines[i].rstrip()
        if _INSTANCE.match(line):
            current = BufferPool()
            total.instances.append(current)
        elif _RULE.fullmatch(line):
            # Two rules enclose the next section's title; the instances' title begins no new
            # section.
            if (
                i + 2 < len(lines)
                and lines[i + 1].strip() != "INDIVIDUAL BUFFER POOL INFO"
                and _RULE.fullmatch(lines[i + 2].strip())
            ):
                break
        else:
            _add_line(current, line)
    return total


def _add_line(pool: BufferPool, line: str) -> None:
    if pages := _PAGES.match(line):
        pool.figures |= dict(
            zip(("read", "created", "written"), map(int, pages.groups()), strict=True)
        )
    elif rate := _RATE.match(line):
        pool.hit_rate = int(rate[1]) / max(1, int(rate[2]))
    elif line.startswith((" ", "\t")) and (table := _HASH.match(line)):
        total, constant, variable = (int(x) if x else None for x in table.groups()[1:])
        pool.tables[table[1]] = HashTable(total or 0, constant, variable)
    elif (plain := _NUMBERED.match(line)) and (name := _PLAIN.get(plain[1].removesuffix(":"))):
        pool.figures[name] = int(plain[2])
        if more := _ADDITIONAL.search(plain[3]):
            pool.figures["additional"] = int(more[1])
