"""The one opener of files that others made or named: results, saved looks, profiles, traces,
archives, option files, whatever a command line or another file names.

Nothing is opened for reading before it is known to be a regular file. So opening never waits (for
the writer of a FIFO) and triggers nothing (a device). What is checked is what is read: the
descriptor is kept, and the path is not looked at again.

Two rules for links:

- A path that the user names may lead through links: users link their own results and archives.
- What lies in a directory that somebody else made (``below``) is opened from that directory's
  descriptor, part by part. No link in it is followed: it could lead to any file that we may read.

Files that a *process* names are opened by :mod:`dballoc.host.process.open_in_process_root`.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_LOOK = os.O_PATH | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}

# What changes when a file is written, replaced or moved: device, inode, bytes, time of the change.
Stamp = tuple[int, int, int, int]


def make_stamp(status: os.stat_result) -> Stamp:
    """Return what tells a file as it is from what it becomes."""
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns


class NotRegular(OSError):
    """It is no regular file, but a directory, a FIFO, a device, a socket or a link."""


def open_foreign_file(path: Path, below: Path | None = None) -> BufferedReader:
    """Open a regular file for reading. Raises NotRegular if it is anything else; OSError as open
    raises. ``below``: a directory that somebody else made; ``path`` begins with it.
    """
    fd = os.open(path, _LOOK) if below is None else _look_below(path, below)
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "a device")
            raise NotRegular(errno.EINVAL, f"is {kind}, not a plain file", os.fspath(path))
        return open(os.open(f"/proc/self/fd/{fd}", _READ), "rb")
    finally:
        os.close(fd)


def _look_below(path: Path, below: Path) -> int:
    """Return an O_PATH descriptor of what ``path`` is below a directory, without following links in
    it.
    """
    fd = os.open(below, _LOOK | os.O_DIRECTORY)
    try:
        for part in path.relative_to(below).parts:
            if part == "..":
                raise NotRegular(errno.EINVAL, "leads out of its directory", os.fspath(path))
            above, fd = fd, os.open(part, _LOOK | os.O_NOFOLLOW, dir_fd=fd)
            os.close(above)
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise NotRegular(
                    errno.ELOOP, f"{part} is a link, which is not followed here", os.fspath(path)
                )
    except BaseException:
        os.close(fd)
        raise
    return fd
