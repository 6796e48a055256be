"""A server's plugin directory, in its own mount namespace: below its root, and never
outside of it.
"""

import contextlib
import errno
import os
from collections.abc import Iterator

from dballoc.host import target_files

# Our library has some 40 KB.
LARGEST = 16 << 20


class Closed(Exception):
    """A place that cannot be read or written; which, and why, in one line."""


@contextlib.contextmanager
def directory(pid: int, path: str) -> Iterator["Directory"]:
    """The directory ``path`` of a process, open. :class:`Closed` if it cannot be opened, or for
    what is done in it.
    """
    try:
        with target_files.open_directory(target_files.root_of(pid), path) as opened:
            yield Directory(opened, path)
    except OSError as error:
        raise Closed(_words(path, error)) from None


class Directory:
    """An open directory, ``fd``, and its path as its process sees it."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path


def read(where: Directory, name: str) -> bytes | None:
    """The first :data:`LARGEST` bytes of a file; None if there is none of that name."""
    try:
        fd = target_files.open_name(where.fd, name)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        return file.read(LARGEST)


def write(where: Directory, name: str, contents: bytes) -> None:
    """Make or replace a file that everybody may read: whole, or not at all. One that is in use
    stays as it is for its user.
    """
    partial = f".{name}.{os.getpid()}"
    fd = os.open(
        partial,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o644,
        dir_fd=where.fd,
    )
    try:
        with open(fd, "wb") as file:
            file.write(contents)
            file.flush()
            os.fchmod(fd, 0o644)
            os.fsync(fd)
        os.rename(partial, name, src_dir_fd=where.fd, dst_dir_fd=where.fd)
    except BaseException:
        remove(where, partial)
        raise


def remove(where: Directory, name: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=where.fd)


def _words(path: str, error: OSError) -> str:
    remedy = {
        errno.EACCES: "; run this as root",
        errno.EPERM: "; run this as root",
        errno.EROFS: "; start the server with a --plugin-dir that can be written",
        errno.ENOENT: "; is the server's plugin_dir right?",
        errno.ENOSPC: "",
    }.get(error.errno or 0, "")
    return f"the server's {path}: {error.strerror or error}{remedy}"
