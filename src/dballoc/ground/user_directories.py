"""The directories of dballoc that stay: the user's cache, and the private store."""

import os
import stat
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.ground.files.caller_umask import get_caller_umask

# Of the cache, and of what is in it: for our own user. The group may enter, if it has been made the
# server user's (host/directories.py).
_PRIVATE, _MOST = 0o700, 0o710
# Of the store: libraries in it are preloaded into servers of any user.
_PUBLIC = 0o755


def locate_cache() -> Path:
    """Return the cache: ``$DBALLOC_CACHE``, else /var/cache/dballoc for root, else in the user's
    own cache. It may not exist: looking makes nothing.
    """
    return _choose_directory("DBALLOC_CACHE", "/var/cache", "XDG_CACHE_HOME", ".cache")


def make_cache() -> Path:
    """Return the cache, made for our own user alone if it is not there. Raises UsageError if it
    cannot be made, is another user's, or may be written by others.
    """
    return _make_directory(locate_cache(), "cache", "DBALLOC_CACHE", _PRIVATE)


def make_in_cache(name: str) -> Path:
    """Return a directory of the cache, made for our own user alone if it is not there. Raises
    UsageError if it cannot be made, or is not ours alone.
    """
    path = make_cache() / name
    try:
        _make_new(path, _PRIVATE)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"{path}: not a directory of dballoc's ({error.strerror}); remove it, or set "
            "DBALLOC_CACHE"
        ) from None
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid():
            raise UsageError(f"{path}: belongs to another user; remove it, or set DBALLOC_CACHE")
        if stat.S_IMODE(status.st_mode) & ~_MOST:
            os.fchmod(directory, stat.S_IMODE(status.st_mode) & _MOST)
    finally:
        os.close(directory)
    return path


def locate_store() -> Path:
    """Return the private store of ``dballoc fetch``: ``$DBALLOC_STORE``, else /var/lib/dballoc for
    root, else in the user's own data. It may not exist: reading makes nothing.
    """
    return _choose_directory("DBALLOC_STORE", "/var/lib", "XDG_DATA_HOME", ".local/share")


def make_store() -> Path:
    """Return the private store, made if it is not there. Raises UsageError if it cannot be made, is
    another user's, or may be written by others.
    """
    return _make_directory(locate_store(), "store", "DBALLOC_STORE", _PUBLIC)


def _choose_directory(variable: str, of_root: str, xdg: str, below_home: str) -> Path:
    if chosen := os.environ.get(variable):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path(of_root) / "dballoc"
    return Path(os.environ.get(xdg) or Path.home() / below_home) / "dballoc"


def _make_directory(path: Path, purpose: str, variable: str, mode: int) -> Path:
    try:
        for parent in reversed(path.parents):
            if not parent.exists():
                _make_new(parent, 0o777 & ~get_caller_umask())
        _make_new(path, mode)
        status = path.stat()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot make the {purpose} directory: {error.strerror}; set {variable}"
        ) from None
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: not a directory; set {variable} to a directory of your own")
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"{path}: belongs to another user; set {variable} to a directory of your own"
        )
    if status.st_mode & stat.S_ISVTX and status.st_mode & stat.S_IWOTH:
        raise UsageError(
            f"{path}: everybody may write in it; set {variable} to a new directory below it"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"{path}: others may write it, so they could replace the {purpose}; chmod go-w {path}"
        )
    return path


def _make_new(path: Path, mode: int) -> None:
    """Make a directory, unless something of that name is there. Raises OSError if that fails."""
    try:
        path.mkdir(mode=mode & 0o700)
    except FileExistsError:
        return
    if mode & ~0o700:  # which our umask does not let it have from the start
        path.chmod(mode)
