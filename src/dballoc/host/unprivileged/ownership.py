"""Hand whole directories over to the server user, take them back, and remove them: no link in them
is followed, and no file of another user is changed.
"""

import fnmatch
import os
import shutil
import stat
from pathlib import Path

from dballoc.ground.errors import Failure
from dballoc.ground.files.output_directory import replace_file
from dballoc.ground.files.remove_tree import remove_tree
from dballoc.host.unprivileged.server_user import ServerUser

# No server nests its data more deeply; each level takes a descriptor.
_DEEPEST = 64
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SET_ID = stat.S_ISUID | stat.S_ISGID


def hand_over(path: Path, user: ServerUser) -> None:
    """Make a directory of ours, with all that is in it, the server user's. The directory itself is
    changed last: until then that user cannot enter it.
    """
    if user.uid is not None:
        with _Directory(path) as top:
            _hand_over(top.number, user.uid, path, 1)


def take_back(path: Path, user: ServerUser) -> int:
    """Make a directory of the server user's, with all that is in it, ours for good, and return its
    bytes on disk. It keeps directories and regular files, no links, no devices and no set-user-ID
    bits. The directory itself is changed first: from then on that user cannot change what is being
    read.
    """
    with _Directory(path) as top:
        return _take_back(top.number, user.uid is not None, path, 1)


def take_files(source: Path, target: Path, pattern: str) -> list[str]:
    """Copy the regular files whose names match out of a directory of the server user's into one of
    ours, and return their names. The copies are ours, and executable. Anything else is left out.
    """
    names = []
    with _Directory(source) as from_directory, _Directory(target) as to_directory:
        for name in sorted(fnmatch.filter(os.listdir(from_directory.number), pattern)):
            try:
                number = os.open(
                    name,
                    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                    dir_fd=from_directory.number,
                )
            except OSError:
                continue  # a link, or gone
            if not stat.S_ISREG(os.fstat(number).st_mode):
                os.close(number)
                continue
            with (
                open(number, "rb") as original,
                replace_file(to_directory.number, name, 0o755) as copy,
            ):
                shutil.copyfileobj(original, copy)
            names.append(name)
    return names


def remove_directory(path: Path) -> None:
    """Remove a directory with all that is in it, as far as possible; a link to one is removed, not
    followed.
    """
    remove_tree(path)


def make_writable(path: Path) -> None:
    """Make a copied directory writable for its owner, whatever the modes of the original."""
    for _, _, names, number in os.fwalk(path, follow_symlinks=False):
        os.fchmod(number, stat.S_IMODE(os.fstat(number).st_mode) & ~_SET_ID | 0o700)
        for name in names:
            mode = os.stat(name, dir_fd=number, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                os.chmod(name, stat.S_IMODE(mode) & ~_SET_ID | 0o600, dir_fd=number)


class _Directory:
    def __init__(self, path: str | Path, below: int | None = None) -> None:
        self.number = os.open(path, _OPEN, dir_fd=below)

    def __enter__(self) -> "_Directory":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


def _hand_over(directory: int, uid: int, shown: Path, depth: int) -> None:
    _check_depth(shown, depth)
    for name in os.listdir(directory):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            with _Directory(name, directory) as below:
                _hand_over(below.number, uid, shown / name, depth + 1)
        else:
            os.chown(name, uid, uid, dir_fd=directory, follow_symlinks=False)
    os.fchown(directory, uid, uid)


def _take_back(directory: int, change: bool, shown: Path, depth: int) -> int:
    _check_depth(shown, depth)
    owner = os.geteuid(), os.getegid()
    status = os.fstat(directory)
    if change:
        os.fchown(directory, *owner)
        os.fchmod(directory, stat.S_IMODE(status.st_mode) & 0o750 | 0o700)
    size = status.st_blocks * 512
    for name in os.listdir(directory):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            with _Directory(name, directory) as below:
                size += _take_back(below.number, change, shown / name, depth + 1)
        elif not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.unlink(name, dir_fd=directory)
        else:
            size += status.st_blocks * 512
            if change:
                os.chown(name, *owner, dir_fd=directory, follow_symlinks=False)
                _drop_set_id_bits(name, directory, status.st_mode)
    return size


def _drop_set_id_bits(name: str, directory: int, mode: int) -> None:
    # A change of owner drops them already, but for root not on every file system.
    if mode & (_SET_ID | stat.S_IWOTH):
        os.chmod(name, stat.S_IMODE(mode) & ~(_SET_ID | stat.S_IWOTH), dir_fd=directory)


def _check_depth(shown: Path, depth: int) -> None:
    if depth > _DEEPEST:
        raise Failure(
            f"{shown}: more than {_DEEPEST} directories deep, deeper than any server's data"
        )
