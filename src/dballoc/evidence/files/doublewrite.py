"""Memory for the pages of MySQL's doublewrite files, which InnoDB reads at its start, for recovery,
and keeps until it ends.

No instrument counts them (buf0dblwr.cc: ``dblwr::recv::Pages``). The files are there from MySQL
8.0.20 on; MariaDB has none.
"""

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dballoc.evidence.sql.server_memory import OwnerMemory
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.process.heaps.heap_walk import BlockGroup

OWNER = "InnoDB doublewrite pages, read at its start"
_FILES = "#ib_*_*.dblwr"
# Each page is kept in an aligned buffer of its own, for which InnoDB allocates three pages: 49,152
# bytes for a page of 16 KiB, as the heap probe shows in MySQL 8.0.33 (536 pages) and 9.7.4 (1,024).
_PAGES, _PAGE = 3, 16384
# A block may be larger by malloc's header and its alignment: by one in so many.
_NEAR = 32
# A data directory has a directory for each database, and two doublewrite files for each instance of
# the pool.
_MOST_NAMES, _MOST_FILES = 100_000, 256


def confirm_by_blocks(
    estimate: OwnerMemory | None, groups: Sequence[BlockGroup]
) -> OwnerMemory | None:
    """Return the estimate as far as there are live blocks of its size; None if there are none: the
    files alone say only that some server has written them. ``groups``: live blocks by size, those
    with most bytes first, empty where they are not known. Pure.
    """
    if estimate is None or not groups:
        return estimate
    block = _PAGES * _PAGE
    pages = sum(g.bytes for g in groups if block <= g.size <= block + block // _NEAR)
    if pages:
        return replace(estimate, bytes=min(estimate.bytes, pages))
    # So much would be among the groups that are known.
    return None if estimate.bytes > groups[-1].bytes else estimate


def estimate_doublewrite_pages(
    process: Process, variables: Mapping[str, str]
) -> OwnerMemory | None:
    """Return the estimate for a server with these ``variables``; None where there are no such
    files, or they cannot be read.
    """
    directory = os.path.join(
        variables.get("datadir", ""), variables.get("innodb_doublewrite_dir", "")
    )
    root = process.root
    try:
        inside = process.strip_root(directory)
        names = fnmatch.filter(
            open_in_process_root.list_directory(root, inside, _MOST_NAMES), _FILES
        )
        size = sum(
            open_in_process_root.measure_file(root, f"{inside}/{name}").st_size
            for name in names[:_MOST_FILES]
        )
    except OSError:
        return None
    return (
        OwnerMemory(
            owner=OWNER,
            bytes=_PAGES * size,
            source="three times the size of its doublewrite files",
            touched=size,
            grain=_PAGES * _PAGE,
        )
        if size
        else None
    )
