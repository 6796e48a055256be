"""The pages of MySQL's doublewrite files, which its InnoDB reads when it starts, to recover from
them, and keeps to its end.

No instrument counts them (buf0dblwr.cc: ``dblwr::recv::Pages``). The files are there from MySQL
8.0.20 on; MariaDB has none.
"""

import fnmatch
import os
from collections.abc import Mapping

from dballoc.explain.sources.server_memory import Label
from dballoc.host import process_root, target_files

OWNER = "InnoDB doublewrite pages, read at its start"
_FILES = "#ib_*_*.dblwr"
# Each is kept in an aligned buffer of its own, for which it asks malloc for three: 49,152 bytes of
# pages of 16 KiB, as a heap probe saw it in MySQL 8.0.33 (536 of them) and 9.7.4 (1,024).
_PAGES = 3
# A data directory has a directory for each database; of doublewrite files there are two for each
# instance of the pool.
_MOST_NAMES, _MOST_FILES = 100_000, 256


def label(pid: int, variables: Mapping[str, str]) -> Label | None:
    """Of a server with these ``variables``; None where there are no such files, or they are not
    ours to see.
    """
    directory = os.path.join(
        variables.get("datadir", ""), variables.get("innodb_doublewrite_dir", "")
    )
    root = target_files.root_of(pid)
    try:
        its = process_root.own(pid, directory)
        names = fnmatch.filter(target_files.list_directory(root, its, _MOST_NAMES), _FILES)
        size = sum(
            target_files.measure_file(root, f"{its}/{name}").st_size for name in names[:_MOST_FILES]
        )
    except OSError:
        return None
    return (
        Label(
            owner=OWNER, bytes=_PAGES * size, source="three times the size of its doublewrite files"
        )
        if size
        else None
    )
