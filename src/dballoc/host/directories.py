"""The directories that dballoc makes for a run: scratch data, sockets."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from dballoc.errors import UsageError
from dballoc.user_directories import make_cache

# sun_path is 108 bytes with its final NUL (unix(7)).
SOCKET_PATH_LIMIT = 107


# Puts a path that must not outlive us on the guardian's list. It is called before the path is made,
# as we may be killed between the two.
Register = Callable[[Path], None]


def make_scratch(register: Register) -> Path:
    """Make a directory for one trial's data, on the file system of the templates."""
    parent = make_cache() / "scratch"
    parent.mkdir(exist_ok=True)
    return make_fresh_directory(parent, "t", register)


def check_socket_path() -> None:
    """UsageError if the path of a socket in the directory for temporary files is too long for the
    kernel.
    """
    parent = Path(tempfile.gettempdir())
    length = len(os.fsencode(parent / f"dballoc-{_make_unique_name()}" / "mysqld.sock"))
    if length > SOCKET_PATH_LIMIT:
        raise UsageError(
            f"{parent}: the path of a server's socket in it would have {length} bytes, but the "
            f"kernel's limit is {SOCKET_PATH_LIMIT}; set TMPDIR to a shorter path"
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
