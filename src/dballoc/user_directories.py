"""The directories of dballoc that stay: the user's cache, and the private store."""

import os
from pathlib import Path

from dballoc.errors import UsageError


def locate_cache() -> Path:
    """Return the cache: ``$DBALLOC_CACHE``, else /var/cache/dballoc for root, else in the user's
    own cache. It may not exist: looking makes nothing.
    """
    return _choose_directory("DBALLOC_CACHE", "/var/cache", "XDG_CACHE_HOME", ".cache")


def make_cache() -> Path:
    """Return the cache, made if it is not there. UsageError if it cannot be made, or is another
    user's.
    """
    return _make_directory(locate_cache(), "cache", "DBALLOC_CACHE")


def locate_store() -> Path:
    """Return the private store of ``dballoc fetch``: ``$DBALLOC_STORE``, else /var/lib/dballoc for
    root, else in the user's own data. It may not exist: reading makes nothing.
    """
    return _choose_directory("DBALLOC_STORE", "/var/lib", "XDG_DATA_HOME", ".local/share")


def make_store() -> Path:
    """Return the private store, made if it is not there. UsageError if it cannot be made, or is
    another user's.
    """
    return _make_directory(locate_store(), "store", "DBALLOC_STORE")


def _choose_directory(variable: str, of_root: str, xdg: str, below_home: str) -> Path:
    if chosen := os.environ.get(variable):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path(of_root) / "dballoc"
    return Path(os.environ.get(xdg) or Path.home() / below_home) / "dballoc"


def _make_directory(path: Path, purpose: str, variable: str) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot make the {purpose} directory: {error.strerror}; set {variable}"
        ) from None
    if path.stat().st_uid != os.geteuid():
        raise UsageError(
            f"{path}: belongs to another user; set {variable} to a directory of your own"
        )
    return path
