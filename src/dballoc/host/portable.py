"""What dballoc knows of how it came here: with pip, or with an interpreter of its own, as the
portable file (``native/launcher/``) or the Debian package.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

# The directory that a launcher unpacked into; empty: a place that stays.
_VARIABLE = "DBALLOC_PORTABLE"
# Where the cache is (user_directories.py), and its name in that directory.
_CACHE_VARIABLE, _CACHE = "DBALLOC_CACHE", "cache"


@dataclass
class _Place:
    bundled: bool = False
    temporary: bool = False


_place = _Place()


def restore_environment(environ: MutableMapping[str, str]) -> None:
    """Give the user's ``LD_…`` their names back, for the programs that dballoc starts, and remove
    what the launcher added. The loader has read them before, so they do nothing to this process.

    The cache of a launcher's dballoc goes into the launcher's directory, and away with it, unless
    the user has chosen another: nothing else is written on that host.
    """
    directory = environ.pop(_VARIABLE, None)
    _place.bundled = directory is not None
    _place.temporary = bool(directory)
    if directory and not environ.get(_CACHE_VARIABLE):
        environ[_CACHE_VARIABLE] = f"{directory}/{_CACHE}"
    for name in [name for name in environ if name.startswith(f"{_VARIABLE}_LD_")]:
        environ[name.removeprefix(f"{_VARIABLE}_")] = environ.pop(name)


def is_bundled() -> bool:
    """Tell whether dballoc came with an interpreter of its own, which pip cannot add to."""
    return _place.bundled


def is_temporary() -> bool:
    """Tell whether dballoc's own files are gone when it ends."""
    return _place.temporary
