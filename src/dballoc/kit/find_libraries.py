"""Find the libraries that programs load, by their DT_NEEDED and search paths, as ld.so(8) looks for
them. Nothing is executed: ldd would run the program.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dballoc.ground.errors import UsageError
from dballoc.host.elf import patch_elf

# Loaded by the C library itself, by name: of pthread_exit(3), and of nsswitch.conf(5).
LOADED_BY_NAME = ("libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2")
# More than any server has.
_MOST = 1000


@dataclass(frozen=True, kw_only=True)
class ElfNeeds:
    """What an ELF file tells the loader. ``needed``: sonames; ``search``: directories, resolved."""

    needed: tuple[str, ...]
    search: tuple[Path, ...]


@cache
def read_needs(path: Path) -> ElfNeeds:
    """Read what a file tells the loader, as it lies at its real place."""
    real = path.resolve()
    words = patch_elf.resolve_search_path(patch_elf.read_search_path(real), real.parent)
    return ElfNeeds(
        needed=tuple(patch_elf.read_needed_libraries(real)),
        search=tuple(Path(os.path.normpath(word)) for word in words),
    )


def find_libraries(
    program: Path,
    loads: Iterable[Path],
    find_of_machine: Callable[[str], Path | None],
    read: Callable[[Path], ElfNeeds] = read_needs,
) -> dict[str, Path]:
    """Find all libraries that a program needs, by soname, with those of the files that it ``loads``
    later: plugins, mallocs. Raises UsageError if one is missing, or needed by its path.

    ``find_of_machine``: finds a soname in the directories of this machine's loader.
    """
    main = read(program)
    libraries: dict[str, Path] = {}
    waiting = [program, *loads]
    while waiting:
        user = waiting.pop(0)
        needs = main if user == program else read(user)
        for soname in needs.needed:
            if soname in libraries:
                continue
            if "/" in soname:
                raise UsageError(
                    f"{user}: needs {soname} by its path, which a kit cannot carry; link it by its "
                    "name"
                )
            path = _look_in((*needs.search, *main.search), soname) or find_of_machine(soname)
            if path is None:
                raise UsageError(
                    f"{user}: needs {soname}, which is not on this machine, so a kit cannot have it"
                )
            libraries[soname] = path
            waiting.append(path)
            if len(libraries) > _MOST:
                raise UsageError(f"{program}: needs more than {_MOST} libraries")
    return libraries


def _look_in(directories: Iterable[Path], soname: str) -> Path | None:
    return next((d / soname for d in directories if (d / soname).is_file()), None)
