"""Keep lookup tables of symbols in the cache: each in a file, and no more in all than a bound. The
tables that were not used for longest are removed first.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dballoc.errors import UsageError
from dballoc.files.output_directory import replace_file
from dballoc.user_directories import make_in_cache

# Bytes on disk of all tables; the sandbox lets one have half of it (give_up_rights.py).
MOST_BYTES = 1 << 30
_SUFFIX = ".symcache"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_cache() -> Iterator["TableCache | None"]:
    """Yield the cache of tables; None if there is none."""
    try:
        directory = os.open(make_in_cache("symbols"), _DIRECTORY)
    except (UsageError, OSError):
        yield None
        return
    try:
        yield TableCache(directory)
    finally:
        os.close(directory)


class TableCache:
    """The tables in a directory that is open as ``directory``: ``most`` bytes in all."""

    def __init__(self, directory: int, most: int = MOST_BYTES) -> None:
        self._directory = directory
        self._most = most

    def open_table(self, name: str) -> int | None:
        """Open a table for reading, and note that it is used now. None if it is not there."""
        try:
            fd = os.open(
                name + _SUFFIX, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory
            )
        except OSError:
            return None
        os.utime(fd)
        return fd

    def make_table(self, name: str, write: Callable[[int], object]) -> None:
        """Keep the table that ``write`` writes to a descriptor, in place of any of that name, and
        remove what is too much then. OSError if that fails; what ``write`` raises; in both cases
        nothing is kept.
        """
        with replace_file(self._directory, name + _SUFFIX, 0o600) as file:
            write(file.fileno())
        self._prune()

    def _prune(self) -> None:
        tables = []
        for name in os.listdir(self._directory):
            try:
                status = os.stat(name, dir_fd=self._directory, follow_symlinks=False)
            except FileNotFoundError:
                continue  # another dballoc was quicker
            tables.append((status.st_mtime_ns, name, status.st_blocks * 512))
        for name in choose_superfluous(tables, self._most):
            self._remove(name)

    def _remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._directory)
        except OSError:
            pass  # another dballoc was quicker, or it is no file


def choose_superfluous(tables: Iterable[tuple[int, str, int]], most: int) -> list[str]:
    """Choose the tables to remove so that the others have at most ``most`` bytes: those that were
    not used for longest. ``tables``: when each was used, its name, its bytes. Unfinished tables,
    which a killed dballoc left or another is writing, are among them. Pure.
    """
    ordered = sorted(tables, reverse=True)
    sums = itertools.accumulate(size for _, _, size in ordered)
    return [name for (_, name, _), total in zip(ordered, sums, strict=True) if total > most]
