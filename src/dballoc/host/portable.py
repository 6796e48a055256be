"""What dballoc knows of how it came here: with pip, or with an interpreter of its own, as the
portable file (``native/launcher/``) or the Debian package.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

# The directory that a launcher unpacked into; empty: a place that stays.
_VARIABLE = "DBALLOC_PORTABLE"


@dataclass
class _Place:
    bundled: bool = False
    temporary: bool = False


_place = _Place()


def restore_environment(environ: MutableMapping[str, str]) -> None:
    """Give the user's ``LD_…`` their names back, for the programs that dballoc starts, and remove
    what the launcher added. The loader has read them before, so they do nothing to this process.
    """
    _place.bundled = _VARIABLE in environ
    _place.temporary = bool(environ.pop(_VARIABLE, ""))
    for name in [name for name in environ if name.startswith(f"{_VARIABLE}_LD_")]:
        environ[name.removeprefix(f"{_VARIABLE}_")] = environ.pop(name)


def is_bundled() -> bool:
    """Tell whether dballoc came with an interpreter of its own, which pip cannot add to."""
    return _place.bundled


def is_temporary() -> bool:
    """Tell whether dballoc's own files are gone when it ends."""
    return _place.temporary
