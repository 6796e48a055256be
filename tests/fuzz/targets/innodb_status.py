"""SHOW ENGINE INNODB STATUS, the section of the buffer pool."""

from example_innodb_status import AFTER, BEFORE, MYSQL_55, PERCONA

from dballoc.evidence.sql.innodb_status import parse_buffer_pool
from dballoc.explain.checklist.checklist import list_pool_rows

OF = ("dballoc.evidence.sql.innodb_status",)
PRIVILEGED = True


def seeds() -> list[bytes]:
    return [(BEFORE + text + AFTER).encode() for text in (MYSQL_55, PERCONA)]


def fuzz(data: bytes) -> None:
    found = parse_buffer_pool(data.decode(errors="replace"))
    if found:
        repr(list_pool_rows(found, 16384))
