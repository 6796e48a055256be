"""Copy the files whose code a process has mapped, for perf to unwind with.

The process may be hostile: its files may grow while they are copied, and the names that it gives
them may contradict each other. So the copies have numbers, each file is copied once, bytes are
counted as they come, and a name is no more than another link to a copy.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dballoc.ground.errors import Failure
from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.abandonable.look_limits import look_limits
from dballoc.host.process import maps as process_maps
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.ownership import remove_directory
from dballoc.host.unprivileged.server_user import ServerUser

# Bytes of all copies of a process's files.
MOST_BYTES = 1 << 30
_PIECE = 1 << 20
# Copying may take so many times the seconds of a look.
_LOOKS = 4


def copy_mapped_files(process: Process, tree: Path, reader: ServerUser, is_ours: bool) -> list[str]:
    """Copy a process's files into the new directory ``tree``, where ``reader``, and nobody else but
    us, can read them under the paths that the process has for them. Return a line for each thing
    that was left out because it did not answer.

    A file is also left out if it cannot be opened, if it has no room among the others, or if its
    path contradicts an earlier one: a stack ends at its frames. ``is_ours``: the process is a
    server of ours, whose files are read without a child that could be given up.
    """
    try:
        if is_ours:
            return _copy_files(process, tree, reader)
        look = look_limits()
        limits = replace(look, seconds=_LOOKS * look.seconds)
        return run_abandonable(
            lambda: _copy_files(process, tree, reader), f"copying the files of {process}", limits
        )
    except Failure as error:
        return [str(error)]
    except OSError as error:
        return [f"the files of {process} were not copied: {error.strerror}"]
    finally:
        tree.mkdir(mode=0o700, exist_ok=True)  # it may have been given up before it began


def _copy_files(process: Process, tree: Path, reader: ServerUser) -> list[str]:
    maps = process_maps.parse_maps(process_maps.read_maps_text(process, errors="surrogateescape"))
    paths = dict.fromkeys(
        line.path for line in maps if "x" in line.permissions and line.path.startswith("/")
    )

    copies = MappedCopies(tree, reader)
    for path in paths:
        copies.add(path, lambda its: open_in_process_root.open_file_of(process, its))
    return touches.list_notes()


class MappedCopies:
    """Copies of at most ``most`` bytes in all, in the directories ``tree``, by the paths of the
    originals, and beside it, by number. What an earlier child copied there is removed.
    """

    def __init__(self, tree: Path, reader: ServerUser, most: int = MOST_BYTES) -> None:
        self._tree = tree
        self._numbered = tree.with_name(f"{tree.name}-by-number")
        self._reader = reader
        self._bytes_left = most
        # By device and inode.
        self._copies: dict[tuple[int, int], Path | None] = {}
        for directory in (self._tree, self._numbered):
            if directory.exists():
                remove_directory(directory)
            self._make_directory(directory)

    def add(self, path: str, open_file: Callable[[str], int]) -> None:
        """Copy the file that ``open_file`` opens under this path, unless it must be left out."""
        parts = path.split("/")[1:]
        if not all(parts) or {".", ".."} & {*parts}:
            return
        try:
            source = open_file(path)
        except OSError:
            return
        try:
            copy = self._copy_once(source)
            if copy is not None:
                self._link(copy, parts)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
        finally:
            os.close(source)

    def _copy_once(self, source: int) -> Path | None:
        """Return the copy of an open file; None if it has no room."""
        status = os.fstat(source)
        key = status.st_dev, status.st_ino
        if key not in self._copies:
            self._copies[key] = None
            if stat.S_ISREG(status.st_mode) and status.st_size <= self._bytes_left:
                self._copies[key] = self._copy(source, self._numbered / str(len(self._copies)))
        return self._copies[key]

    def _copy(self, source: int, path: Path) -> Path | None:
        """Copy an open file as long as there is room for it. None, and no copy, if there is not."""
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        bytes_left = self._bytes_left
        try:
            with open(target, "wb") as file:
                while piece := self._read(source, min(_PIECE, bytes_left + 1)):
                    if len(piece) > bytes_left:
                        path.unlink()
                        return None
                    file.write(piece)
                    bytes_left -= len(piece)
        except OSError:
            path.unlink()
            raise
        self._bytes_left = bytes_left
        self._reader.let_read(path)
        return path

    def _read(self, source: int, count: int) -> bytes:
        with touches.touching_file(source):
            return os.read(source, count)

    def _link(self, copy: Path, parts: list[str]) -> None:
        directory = self._tree
        for part in parts[:-1]:
            directory = directory / part
            self._make_directory(directory)
        os.link(copy, directory / parts[-1])

    def _make_directory(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            return
        self._reader.show(path)
