"""Files that the user names one by one, wherever they are: in a directory of ours, or in one that
everybody may write in, such as /tmp.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dballoc.ground.errors import UsageError
from dballoc.ground.files import caller_umask
from dballoc.ground.files.output_directory import name_user, naming, replace_file

# Links to descriptors of our own: the shell makes /dev/fd/63 for `>(gzip > file)`.
_OWN_DESCRIPTOR = re.compile(r"/(?:dev/(?:std(?P<name>out|err)|fd/(?P<fd>\d+))|proc/self/fd/(\d+))")
_SPECIAL = os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


def find_fault(status: os.stat_result, parent: os.stat_result, caller: int) -> str | None:
    """Return why ``caller`` must not write to what has a file's name in the directory ``parent``,
    or None if nothing speaks against it. Pure.
    """
    is_own = status.st_uid == caller
    owner = name_user(status.st_uid)
    match stat.S_IFMT(status.st_mode):
        case stat.S_IFREG:
            # As fs.protected_regular (proc(5)): in such a directory a name is a guess of others.
            is_public = parent.st_mode & stat.S_ISVTX and parent.st_mode & 0o022
            return f"belongs to {owner}; choose another name" if is_public and not is_own else None
        case stat.S_IFLNK:
            return (
                "is a link, and nothing is written through links; give the file that it leads to, "
                "or remove it"
            )
        case stat.S_IFIFO:
            return None if is_own else f"a pipe of {owner}; choose another name"
        case stat.S_IFCHR:
            return None if is_own or status.st_uid == 0 else f"a device of {owner}"
        case stat.S_IFDIR:
            return "a directory; give the name of a file"
        case _:
            return "not a file that can be written"


@contextlib.contextmanager
def create_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write; it gets its name, and replaces what had it, when the block ends without
    an exception. It is written directly if it is a pipe, a device, or a descriptor of ours
    (/dev/stdout). Raises UsageError if it is a link or somebody else's; OSError.
    """
    with naming(path):
        if (descriptor := _find_descriptor(path)) is not None:
            with open(os.dup(descriptor), "wb") as file:
                yield file
            return
        with _open_parent(path) as parent:
            status = _check(path, parent)
            if status is not None and not stat.S_ISREG(status.st_mode):
                with open(_open_special(path, parent, 0), "wb") as file:
                    yield file
                return
            mode = caller_umask.readable_mode()
            if status is not None:
                mode &= status.st_mode  # what the user made private stays so
            with replace_file(parent, path.name, mode) as file:
                yield file


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, completely or not at all, as :func:`create_file`. UsageError; OSError."""
    with create_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_to_file(path: Path, content: bytes) -> None:
    """Write more to the end of what :func:`write_file` has written. UsageError; OSError."""
    with naming(path):
        if (descriptor := _find_descriptor(path)) is not None:
            fd = os.dup(descriptor)
        else:
            with _open_parent(path) as parent:
                _check(path, parent)
                fd = _open_special(path, parent, os.O_APPEND)
        with open(fd, "wb") as file:
            file.write(content)


def _find_descriptor(path: Path) -> int | None:
    match = _OWN_DESCRIPTOR.fullmatch(os.fspath(path))
    if match is None:
        return None
    return {"out": 1, "err": 2}[match[1]] if match[1] else int(match[2] or match[3])


@contextlib.contextmanager
def _open_parent(path: Path) -> Iterator[int]:
    """Open the directory that the user named, through links: it need not be ours."""
    fd = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _check(path: Path, parent: int) -> os.stat_result | None:
    """Return what has the file's name, None for nothing. Raises UsageError if we must not write
    there.
    """
    try:
        status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _refuse(path, find_fault(status, os.fstat(parent), os.geteuid()))
    return status


def _open_special(path: Path, parent: int, flags: int) -> int:
    """Open what is there to write into it: never a regular file of others, whatever has come into
    its place meanwhile.
    """
    fd = os.open(path.name, _SPECIAL | flags, dir_fd=parent)
    try:
        status = os.fstat(fd)
        _refuse(path, find_fault(status, os.fstat(parent), os.geteuid()))
        if stat.S_ISREG(status.st_mode) and (status.st_uid != os.geteuid() or status.st_nlink != 1):
            _refuse(path, "another user's file, or one with a second name; choose another name")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _refuse(path: Path, fault: str | None) -> None:
    if fault is not None:
        raise UsageError(f"{path}: {fault}")
