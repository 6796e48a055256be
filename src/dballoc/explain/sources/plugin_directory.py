"""Read and write files in a server's plugin directory, in its own mount namespace: below its root,
never outside of it.
"""

import contextlib
import errno
import os
from collections.abc import Iterator

from dballoc.host import open_in_process_root

# Our library has some 40 KB.
LARGEST = 16 << 20


class InaccessibleDirectory(Exception):
    """A directory cannot be read or written: its path, the reason and the remedy in one line."""


@contextlib.contextmanager
def open_directory(pid: int, path: str) -> Iterator["Directory"]:
    """Open the directory ``path`` of a process. :class:`InaccessibleDirectory` if it cannot be
    opened, or for an OSError of what is done in it.
    """
    try:
        with open_in_process_root.open_directory(open_in_process_root.root_of(pid), path) as opened:
            yield Directory(opened, path)
    except OSError as error:
        raise InaccessibleDirectory(_describe_error(path, error)) from None


class Directory:
    """An open directory, ``fd``, and its path as its process sees it."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path


def read_file(directory: Directory, name: str) -> bytes | None:
    """Return the first :data:`LARGEST` bytes of a file; None if there is none of that name."""
    try:
        fd = open_in_process_root.open_name(directory.fd, name)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        return file.read(LARGEST)


def write_file(directory: Directory, name: str, contents: bytes) -> None:
    """Create or replace a file that everybody may read, atomically. A process that has the old file
    open or mapped keeps it.
    """
    partial = f".{name}.{os.getpid()}"
    fd = os.open(
        partial,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o644,
        dir_fd=directory.fd,
    )
    try:
        with open(fd, "wb") as file:
            file.write(contents)
            file.flush()
            os.fchmod(fd, 0o644)
            os.fsync(fd)
        os.rename(partial, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
    except BaseException:
        remove_file(directory, partial)
        raise


def remove_file(directory: Directory, name: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory.fd)


def _describe_error(path: str, error: OSError) -> str:
    remedy = {
        errno.EACCES: "; run this as root",
        errno.EPERM: "; run this as root",
        errno.EROFS: "; start the server with a --plugin-dir that can be written",
        errno.ENOENT: "; is the server's plugin_dir right?",
        errno.ENOSPC: "",
    }.get(error.errno or 0, "")
    return f"the server's {path}: {error.strerror or error}{remedy}"
