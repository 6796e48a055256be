"""A server's plugin directory, in its own mount namespace: below /proc/PID/root, and never outside of it.

The kernel resolves an absolute link below /proc/PID/root from our own root, so that a container could lead us anywhere; each
part of a path is therefore opened by itself, and links are followed here.
"""

import contextlib
import errno
import os
from collections import deque
from collections.abc import Iterator

_PATH = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40


class Closed(Exception):
    """A place that cannot be read or written; which, and why, in one line."""


@contextlib.contextmanager
def directory(pid: int, path: str) -> Iterator["Directory"]:
    """The directory ``path`` of a process, open. :class:`Closed` if it cannot be opened, or for what is done in it."""
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, root)
            opened = _open(root, path, stack)
            yield Directory(opened, path)
    except OSError as error:
        raise Closed(_words(path, error)) from None


class Directory:
    """An open directory, ``fd``, and its path as its process sees it."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path


def read(where: Directory, name: str) -> bytes | None:
    """A file's contents; None if there is none of that name."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=where.fd)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        return file.read()


def write(where: Directory, name: str, contents: bytes) -> None:
    """Make or replace a file that everybody may read: whole, or not at all. One that is in use stays as it is for its user."""
    partial = f".{name}.{os.getpid()}"
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=where.fd)
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


def _open(root: int, path: str, stack: contextlib.ExitStack) -> int:
    """The directory, part by part. ``stack`` closes all that is opened on the way."""
    way, left, links = [root], deque(path.split("/")), 0
    while left:
        part = left.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            way = way[:-1] or [root]
            continue
        try:
            fd = os.open(part, _PATH, dir_fd=way[-1])
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            # Not a directory: a link, or EINVAL here.
            try:
                target = os.readlink(part, dir_fd=way[-1])
            except OSError:
                raise error from None
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
            if target.startswith("/"):
                way = [root]
            left.extendleft(reversed(target.split("/")))
            continue
        stack.callback(os.close, fd)
        way.append(fd)
    return way[-1]


def _words(path: str, error: OSError) -> str:
    remedy = {
        errno.EACCES: "; run this as root",
        errno.EPERM: "; run this as root",
        errno.EROFS: "; start the server with a --plugin-dir that can be written",
        errno.ENOENT: "; is the server's plugin_dir right?",
        errno.ENOSPC: "",
    }.get(error.errno or 0, "")
    return f"the server's {path}: {error.strerror or error}{remedy}"
