"""Read and write files in a server's plugin directory, in its own mount namespace: below its root,
never outside of it, each time in a child that can be given up.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from dballoc.host.abandonable import touches
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import Process

# Our library has some 40 KB.
LARGEST = 16 << 20

Result = TypeVar("Result")


class InaccessibleDirectory(Exception):
    """A directory cannot be read or written: its path, the reason and the remedy in one line."""


class PluginDirectory(NamedTuple):
    """A directory of a process, by its path as the process sees it."""

    process: Process
    path: str


@contextlib.contextmanager
def open_directory(process: Process, path: str) -> Iterator[PluginDirectory]:
    """Check that a process has the directory ``path``, and yield it.
    :class:`InaccessibleDirectory` if it cannot be opened, or for an OSError of what is done in it.
    """
    directory = PluginDirectory(process, path)
    try:
        _work_in(directory, lambda fd: None)
        yield directory
    except OSError as error:
        raise InaccessibleDirectory(_describe_error(path, error)) from None


def read_file(directory: PluginDirectory, name: str) -> bytes | None:
    """Return the first :data:`LARGEST` bytes of a file; None if there is none of that name."""

    def read(fd: int) -> bytes:
        with open(open_in_process_root.open_name(fd, name), "rb") as file:
            return file.read(LARGEST)

    try:
        return _work_in(directory, read)
    except FileNotFoundError:
        return None


def write_file(directory: PluginDirectory, name: str, contents: bytes) -> None:
    """Create or replace a file that everybody may read, atomically. A process that has the old file
    open or mapped keeps it.
    """
    partial = f".{name}.{os.getpid()}"
    try:
        _work_in(directory, lambda fd: _write(fd, partial, name, contents))
    except BaseException:
        remove_file(directory, partial)
        raise


def remove_file(directory: PluginDirectory, name: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        _work_in(directory, lambda fd: os.unlink(name, dir_fd=fd))


def _work_in(directory: PluginDirectory, work: Callable[[int], Result]) -> Result:
    """Do the work, on a descriptor of the directory, in a child. Raises OSError as it raises it;
    Failure if it does not answer.
    """

    def open_and_work() -> Result:
        root = directory.process.root
        with (
            open_in_process_root.open_directory(root, directory.path) as fd,
            touches.touching_file(fd),
        ):
            return work(fd)

    return run_abandonable(open_and_work, f"the server's {directory.path}")


def _write(directory: int, partial: str, name: str, contents: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(partial, flags, 0o644, dir_fd=directory), "wb") as file:
        file.write(contents)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
    os.rename(partial, name, src_dir_fd=directory, dst_dir_fd=directory)


def _describe_error(path: str, error: OSError) -> str:
    remedy = {
        errno.EACCES: "; run this as root",
        errno.EPERM: "; run this as root",
        errno.EROFS: "; start the server with a --plugin-dir that can be written",
        errno.ENOENT: "; is the server's plugin_dir right?",
        errno.ENOSPC: "",
    }.get(error.errno or 0, "")
    return f"the server's {path}: {error.strerror or error}{remedy}"
