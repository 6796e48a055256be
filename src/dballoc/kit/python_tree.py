"""The kit's own Python with dballoc: the tree of the portable file (``native/launcher/``)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dballoc
from dballoc.ground.errors import UsageError
from dballoc.host import portable

# Seconds: 100 MB to unpack; the start of an interpreter.
_UNPACKING, _STARTING = 300, 60
_REMEDY = "build it with make portable, and give it with --portable FILE"


def make_python_tree(source: Path | None, place: Path) -> None:
    """Make the tree at ``place``, a path that is not there yet. ``source``: the portable file, or
    the tree that it was unpacked to; None: the one that runs. Raises UsageError if there is none,
    or if it is of another version than we are.
    """
    if source is None and not portable.is_bundled():
        raise UsageError(f"kit make: this dballoc has no Python of its own to carry; {_REMEDY}")
    tree = source or Path(sys.executable).parent.parent
    if tree.is_dir():
        shutil.copytree(tree, place, symlinks=True)
    else:
        _run([tree.absolute(), "--unpack-to", place], tree, _UNPACKING)
    printed = _run([place / "bin/dballoc", "--version"], tree, _STARTING)
    version = re.search(r"^dballoc (\S+)$", printed, re.MULTILINE)
    if version is None or version[1] != dballoc.__version__:
        raise UsageError(f"{tree}: not dballoc {dballoc.__version__}, as this one is; {_REMEDY}")


def _run(words: list[str | Path], tree: Path, seconds: float) -> str:
    try:
        process = subprocess.run(
            [os.fspath(word) for word in words],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{tree}: does not run: {error}; {_REMEDY}") from None
    if process.returncode != 0:
        last = (process.stderr or process.stdout).strip().splitlines() or ["no message"]
        raise UsageError(f"{tree}: does not run: {last[-1]}; {_REMEDY}")
    return process.stdout
