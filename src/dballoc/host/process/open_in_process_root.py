"""Open files that another process names: inside that process's root, regular files only.

The process may be hostile and we may be root, so each path is text that it chose. The kernel
resolves an absolute link below /proc/PID/root from our own root, which could lead anywhere; so each
part of a path is opened by itself, without following links, and links are followed here, within the
root. (openat2's RESOLVE_IN_ROOT does the same, on Linux 5.6 and later only; RHEL 8 has 4.18.)
Nothing is opened for reading before it is known to be a regular file: opening a FIFO would wait for
a writer, and opening a device may trigger it.

A file system may never answer, whatever is asked of it. So this runs in a child that can be given
up (:mod:`dballoc.host.abandonable`), and notes before each step which file system it enters. One
that an earlier child waited for in vain is not entered again (NotAnswering, an OSError).

``root`` is a directory: ``/proc/PID/root``, or the root of any other file tree.
"""

import contextlib
import errno
import os
import re
import socket
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dballoc.host.abandonable import touches
from dballoc.host.process.handle import Process

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_LINKS = 40
_MOST_PARTS = 256
_OF_PROCESS = re.compile("/proc/[0-9]+/")

# xattr(7), capabilities(7).
_CAPABILITY = "security.capability"


@dataclass(frozen=True, kw_only=True)
class FileRights:
    """What a file gives to the program in it: its ``mode``, owner and group; ``capability``: the
    bytes of its attribute security.capability, empty without one; ``nosuid``: its mount gives
    nothing of all that.
    """

    mode: int
    uid: int
    gid: int
    capability: bytes = b""
    nosuid: bool = False


def open_file(root: Path, path: str) -> int:
    """Open a regular file for reading; the caller closes the descriptor.

    Raises OSError if it is not there, not readable, no regular file, or on a file system that did
    not answer.
    """
    with _open_path(root, path) as (fd, title):
        return _remember(_reopen(fd, path), title)


def open_file_of(process: Process, path: str) -> int:
    """Open a regular file as :func:`open_file`, by the path that a process itself uses."""
    return open_file(process.root, process.strip_root(path))


def open_link(link: str) -> int:
    """Open the target of a link of the kernel's (``/proc/PID/exe``, ``map_files/…``).

    As :func:`open_file`: raises OSError unless it is a regular file.
    """
    with _open_link(link) as (fd, title):
        return _remember(_reopen(fd, link), title)


def read_file(root: Path, path: str, most: int) -> bytes:
    """Read a whole file of at most ``most`` bytes. Raises OSError as :func:`open_file`, or if it is
    larger.
    """
    with _open_to_read(root, path) as fd:
        return _read_all(fd, most, path)


def read_beginning(root: Path, path: str, count: int) -> bytes:
    """Read the first ``count`` bytes of a file, or all that it has. Raises OSError as
    :func:`open_file`.
    """
    with _open_to_read(root, path) as fd:
        return os.pread(fd, count, 0)


@contextlib.contextmanager
def _open_to_read(root: Path, path: str) -> Iterator[int]:
    with (
        _open_path(root, path) as (fd, _),
        open(_reopen(fd, path), "rb", buffering=0) as file,
    ):
        yield file.fileno()


def list_directory(root: Path, path: str, most: int) -> list[str]:
    """List at most ``most`` names of a directory, in order. Raises OSError if it cannot be
    opened.
    """
    with _open_path(root, path) as (fd, _):
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        try:
            with os.scandir(listing) as entries:
                return sorted(entry.name for entry, _ in zip(entries, range(most), strict=False))
        finally:
            os.close(listing)


def measure_file(root: Path, path: str) -> os.stat_result:
    """Return size, owner and identity of a regular file. Raises OSError as :func:`open_file`."""
    with _open_path(root, path) as (fd, _):
        return _check_regular(fd, path)


def read_file_rights(root: Path, path: str) -> FileRights:
    """Read what a regular file gives to the program in it. Raises OSError as :func:`open_file`."""
    with _open_path(root, path) as (fd, _):
        return _read_rights(fd, path)


def read_link_rights(link: str) -> FileRights:
    """Read the same of the target of a link of the kernel's. Raises OSError as
    :func:`open_file`.
    """
    with _open_link(link) as (fd, _):
        return _read_rights(fd, link)


def _read_rights(fd: int, path: str) -> FileRights:
    status = _check_regular(fd, path)
    # Not fgetxattr(2), which takes no O_PATH descriptor: the file itself may be unreadable.
    place = f"/proc/self/fd/{fd}"
    try:
        capability = os.getxattr(place, _CAPABILITY)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        capability = b""
    return FileRights(
        mode=status.st_mode,
        uid=status.st_uid,
        gid=status.st_gid,
        capability=capability,
        nosuid=bool(os.statvfs(place).f_flag & os.ST_NOSUID),
    )


def connect_to_socket(talk: socket.socket, root: Path, path: str) -> None:
    """Connect to a socket file, even if its name changes meanwhile. Raises OSError if it does not
    exist, is not a socket, does not take the connection, or is on a file system that did not
    answer.
    """
    with _open_path(root, path) as (fd, _):
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK), path)
        talk.connect(f"/proc/self/fd/{fd}")


@contextlib.contextmanager
def open_directory(root: Path, path: str) -> Iterator[int]:
    """Yield a descriptor of a directory (O_PATH). Raises OSError if there is none, a link leads to
    nothing in the root, or its file system did not answer.
    """
    with _open_path(root, path) as (opened, title):
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        fd = _remember(os.dup(opened), title)
    try:
        yield fd
    finally:
        os.close(fd)


def open_name(directory: int, name: str) -> int:
    """Open a regular file of an open directory for reading. Raises OSError for a link, or for
    anything but a plain file name.
    """
    if "/" in name or name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "not a plain file name", name)
    with touches.touching_file(directory):
        fd = os.open(name, _STEP, dir_fd=directory)
        try:
            return _reopen(fd, name)
        finally:
            os.close(fd)


def _remember(fd: int, title: str) -> int:
    touches.remember_file(fd, title)
    return fd


def _reopen(fd: int, path: str) -> int:
    """Open an O_PATH descriptor for reading, once it is known to be a regular file."""
    _check_regular(fd, path)
    return os.open(f"/proc/self/fd/{fd}", _READ)


def _check_regular(fd: int, path: str) -> os.stat_result:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return status


@contextlib.contextmanager
def _open_link(link: str) -> Iterator[tuple[int, str]]:
    """Open what a link of the kernel's leads to as O_PATH; as :func:`_open_path`."""
    process, title = _OF_PROCESS.match(link), ""
    try:
        if process:
            title = touches.begin_path(f"{process[0]}root", os.readlink(link))
        # No O_NOFOLLOW: the kernel's link is what is meant, and it leads to the very file.
        fd = os.open(link, os.O_PATH | os.O_CLOEXEC)
        try:
            yield fd, title
        finally:
            os.close(fd)
    finally:
        touches.end_touch()


@contextlib.contextmanager
def _open_path(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """Open ``path``, part by part, as O_PATH. ``..`` goes back to the directory passed before.
    Yield it with the title of its file system, if that may not answer; it is noted as touched until
    the end of the body.
    """
    if "\0" in path:
        raise OSError(errno.EINVAL, "not a file name")
    with contextlib.ExitStack() as opened:
        opened.callback(touches.end_touch)

        def keep(fd: int) -> int:
            opened.callback(os.close, fd)
            return fd

        base = os.fspath(root)
        title = touches.begin_path(base, "/")
        top = keep(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        way, parts, links = [(top, "")], deque(path.split("/")), 0
        while parts:
            part = parts.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                way = way[:-1] or [(top, "")]
                continue
            if len(way) > _MOST_PARTS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
            directory, its_path = way[-1]
            its_path = f"{its_path}/{part}"
            title = touches.begin_path(base, its_path)
            fd = keep(os.open(part, _STEP, dir_fd=directory))
            if not stat.S_ISLNK(os.fstat(fd).st_mode):
                way.append((fd, its_path))
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            # By the link's descriptor: its name may belong to something else by now.
            target = os.readlink("", dir_fd=fd)
            if target.startswith("/"):
                way = [(top, "")]
            parts.extendleft(reversed(target.split("/")))
        yield way[-1][0], title


def _read_all(fd: int, most: int, path: str) -> bytes:
    pieces, size = [], 0
    while piece := os.read(fd, min(1 << 20, most + 1 - size)):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", path)
    return b"".join(pieces)
