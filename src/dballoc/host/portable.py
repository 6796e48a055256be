"""What dballoc knows of how it came here: with pip, or with an interpreter of its own, as the
portable file (``native/launcher/``) or the Debian package.
"""

import fcntl
import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import cache

# The directory that a launcher unpacked into; empty: a place that stays.
_VARIABLE = "DBALLOC_PORTABLE"
# For what outlives a launcher's directory, or is read by another user.
TO_UNPACK = (
    "run: dballoc-portable --unpack-to /opt/dballoc, and from then on /opt/dballoc/bin/dballoc"
)
# Where the cache is (ground/user_directories.py), and its name in that directory.
_CACHE_VARIABLE, _CACHE = "DBALLOC_CACHE", "cache"


@dataclass
class _Place:
    bundled: bool = False
    directory: str = ""


_place = _Place()


def restore_environment(environ: MutableMapping[str, str]) -> None:
    """Give the user's ``LD_…`` their names back, for the programs that dballoc starts, and remove
    what the launcher added. The loader has read them before, so they do nothing to this process.

    The cache of a launcher's dballoc goes into the launcher's directory, and away with it, unless
    the user has chosen another: nothing else is written on that host.
    """
    directory = environ.pop(_VARIABLE, None)
    _place.bundled = directory is not None
    _place.directory = directory or ""
    if directory and not environ.get(_CACHE_VARIABLE):
        environ[_CACHE_VARIABLE] = f"{directory}/{_CACHE}"
    for name in [name for name in environ if name.startswith(f"{_VARIABLE}_LD_")]:
        environ[name.removeprefix(f"{_VARIABLE}_")] = environ.pop(name)


def lock_directory() -> list[int]:
    """Return the descriptors that a process of ours must hold that may outlive this one: while it
    does, the launcher's directory is not removed. Empty where nothing goes away.
    """
    return [_lock_shared(_place.directory)] if _place.directory else []


@cache
def _lock_shared(directory: str) -> int:
    """Lock a directory as its users do (``native/launcher/directory.h``)."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def is_bundled() -> bool:
    """Tell whether dballoc came with an interpreter of its own, which pip cannot add to."""
    return _place.bundled


def is_temporary() -> bool:
    """Tell whether dballoc's own files are gone when it ends."""
    return bool(_place.directory)
