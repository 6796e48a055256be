"""How dballoc runs from the portable file: in a directory that is removed at its end, with the
loader's variables of the user's under other names (``native/launcher/``).
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

_VARIABLE = "DBALLOC_PORTABLE"


@dataclass
class _Place:
    """``directory``: what the portable file was unpacked into; empty if dballoc is installed."""

    directory: str = ""


_place = _Place()


def restore_environment(environ: MutableMapping[str, str]) -> None:
    """Give the user's ``LD_…`` their names back, for the programs that dballoc starts, and remove
    what the launcher added. The loader has read them before, so they do nothing to this process.
    """
    _place.directory = environ.pop(_VARIABLE, "")
    for name in [name for name in environ if name.startswith(f"{_VARIABLE}_LD_")]:
        environ[name.removeprefix(f"{_VARIABLE}_")] = environ.pop(name)


def is_temporary() -> bool:
    """Tell whether dballoc's own files are gone when it ends."""
    return bool(_place.directory)
