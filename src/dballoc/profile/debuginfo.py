"""Where the debug information of a stripped file is: beside it, below /usr/lib/debug, or with a debuginfod server.

As gdb looks for it (its manual, "Debugging Information in Separate Files"): by build-id, then by the file's debug link.
"""

import os
import shutil
import subprocess
import zlib
from pathlib import Path

from dballoc.profile import image
from dballoc.profile.image import Image

_DEBUG = Path("usr/lib/debug")

# debuginfod-find ends by itself when nothing comes for 90 s (DEBUGINFOD_TIMEOUT); this is for a server that drips.
_PATIENCE = 300


def find(of: Image, path: str, root: Path, notes: list[str]) -> Image | None:
    """The separate debug file of a file that a process knows as ``path``, in its own file system and in ours; None if there is
    none. A debuginfod server is asked only where DEBUGINFOD_URLS names one.
    """
    roots = dict.fromkeys((root, Path("/")))
    for place in (p for r in roots for p in _places(of, path, r)):
        if found := _checked(place, of):
            return found
    if of.build_id and os.environ.get("DEBUGINFOD_URLS"):
        return _asked(of, path, notes)
    return None


def _places(of: Image, path: str, root: Path) -> list[Path]:
    places = []
    if len(of.build_id) > 2:
        places.append(root / _DEBUG / ".build-id" / of.build_id[:2] / f"{of.build_id[2:]}.debug")
    if of.link and "/" not in of.link[0]:
        home, name = Path(path.lstrip("/")).parent, of.link[0]
        places += [root / home / name, root / home / ".debug" / name, root / _DEBUG / home / name]
    return places


def _checked(place: Path, of: Image) -> Image | None:
    """A debug file, if it is that of this very build: another one's names would be wrong ones."""
    try:
        found = image.read(place)
    except image.Unreadable:
        return None
    if of.build_id or found.build_id:
        return found if found.build_id == of.build_id else None
    return found if of.link and _crc(place) == of.link[1] else None


def _crc(path: Path) -> int:
    sum_ = 0
    with path.open("rb") as f:
        while piece := f.read(1 << 20):
            sum_ = zlib.crc32(piece, sum_)
    return sum_


def _asked(of: Image, path: str, notes: list[str]) -> Image | None:
    client = shutil.which("debuginfod-find")
    if client is None:
        said = "DEBUGINFOD_URLS is set, but debuginfod-find is not on this machine; apt-get install debuginfod"
        if said not in notes:
            notes.append(said)
        return None
    try:
        done = subprocess.run(
            [client, "debuginfo", of.build_id],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        notes.append(f"{path}: debuginfod has not sent its debug information within {_PATIENCE} s")
        return None
    # Not found is an ordinary answer.
    return _checked(Path(done.stdout.strip()), of) if done.returncode == 0 and done.stdout.strip() else None
