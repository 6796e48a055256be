"""The directories that dballoc makes for a run: scratch data, sockets."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.ground.user_directories import make_cache, make_in_cache
from dballoc.host.unprivileged.server_user import ServerUser

# sun_path is 108 bytes with its final NUL (unix(7)).
SOCKET_PATH_LIMIT = 107


# In the cache: servers' data while they run, and what else does not outlive a verb.
SCRATCH = "scratch"
# What dballoc keeps in the cache: executables that run on another C library, functions of files by
# address, data directories to be copied, JavaScript of pages.
_IN_CACHE = {SCRATCH, "relinked", "symbols", "templates", "webpage"}

# Puts a path that must not outlive us on the guardian's list. It is called before the path is made,
# as we may be killed between the two.
Register = Callable[[Path], None]


def make_scratch(register: Register) -> Path:
    """Make a directory in the cache, accessible to us only."""
    return make_fresh_directory(make_in_cache(SCRATCH), "t", register)


def make_server_scratch(register: Register, user: ServerUser) -> Path:
    """Make a directory for one server's data, on the file system of the templates. The server user
    can enter it by its path, as nobody else can, but neither list nor change it.
    """
    scratch = make_fresh_directory(make_server_directory(SCRATCH, user), "t", register)
    user.show(scratch)
    return scratch


def make_server_directory(name: str, user: ServerUser) -> Path:
    """Return a directory of the cache that the server user can enter, made if it is not there."""
    make_server_cache(user)
    path = make_in_cache(name)
    user.show(path)
    return path


def make_server_cache(user: ServerUser) -> Path:
    """Return the cache. If it is accessible to us only, and nothing but dballoc's is in it, the
    server user can enter it now. Raises UsageError as of
    :func:`dballoc.ground.user_directories.make_cache`.
    """
    cache = make_cache()
    status = cache.stat()
    is_private = not status.st_mode & 0o067
    if user.uid is not None and is_private and set(os.listdir(cache)) <= _IN_CACHE:
        user.show(cache)
    return cache


def check_socket_path(remedy: str = "set TMPDIR to a shorter path") -> None:
    """Raises UsageError that ends with ``remedy`` if the path of a socket in the directory for
    temporary files is too long for the kernel.
    """
    parent = Path(tempfile.gettempdir())
    length = len(os.fsencode(parent / f"dballoc-{_make_unique_name()}" / "mysqld.sock"))
    if length > SOCKET_PATH_LIMIT:
        raise UsageError(
            f"{parent}: the path of a server's socket in it would have {length} bytes, but the "
            f"kernel's limit is {SOCKET_PATH_LIMIT}; {remedy}"
        )


def make_run_directory(register: Register) -> Path:
    """Make a directory with a short path, for a socket."""
    return make_fresh_directory(Path(tempfile.gettempdir()), "dballoc-", register)


def make_fresh_directory(parent: Path, prefix: str, register: Register) -> Path:
    """Make a new directory with a unique name, accessible to us only."""
    path = parent / (prefix + _make_unique_name())
    register(path)
    path.mkdir(mode=0o700)
    return path


def _make_unique_name() -> str:
    return secrets.token_hex(6)


def free_bytes(path: Path) -> int:
    """Return the bytes that an unprivileged user can still write there; of a path that does not
    exist, in its first parent that does.
    """
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
