"""Where dballoc keeps what it makes: a cache of data templates, scratch data, sockets."""

import os
import shutil
import tempfile
from pathlib import Path

from dballoc.errors import UsageError

# sun_path is 108 bytes with its final NUL (unix(7)).
SOCKET_PATH_LIMIT = 107


def cache() -> Path:
    """``$DBALLOC_CACHE``, else /var/cache/dballoc for root, else the user's own cache. Made if it is not there."""
    if chosen := os.environ.get("DBALLOC_CACHE"):
        path = Path(chosen)
    elif os.geteuid() == 0:
        path = Path("/var/cache/dballoc")
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dballoc"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot make the cache directory: {error.strerror}; set DBALLOC_CACHE") from None
    if path.stat().st_uid != os.geteuid():
        raise UsageError(f"{path}: belongs to another user; set DBALLOC_CACHE to a directory of your own")
    return path


def make_scratch() -> Path:
    """A fresh directory for one trial's data, on the same file system as the templates."""
    parent = cache() / "scratch"
    parent.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="t", dir=parent))


def make_run_directory() -> Path:
    """A fresh directory with a short path, for a socket. UsageError if even that is too long for the kernel."""
    path = Path(tempfile.mkdtemp(prefix="dballoc-"))
    length = len(os.fsencode(path / "mysqld.sock"))
    if length > SOCKET_PATH_LIMIT:
        path.rmdir()
        raise UsageError(
            f"{path}/mysqld.sock: {length} bytes, a socket's path holds {SOCKET_PATH_LIMIT}; set TMPDIR to a shorter one"
        )
    return path


def free_bytes(path: Path) -> int:
    """What an unprivileged user can still write there; for a path not yet made, its first parent that is."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
