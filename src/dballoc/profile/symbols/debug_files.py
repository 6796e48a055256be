"""Where the debug information of a stripped file is: beside it, below /usr/lib/debug, or with a
debuginfod server.

As gdb looks for it (its manual, "Debugging Information in Separate Files"): by build-id, then by
the file's debug link.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from dballoc.host import target_files
from dballoc.host.unprivileged.sandbox import Sandbox, SandboxError
from dballoc.profile.symbols.elf_notes import Image

_DEBUG_DIRECTORY = "usr/lib/debug"

# debuginfod-find ends by itself when nothing comes for 90 s (DEBUGINFOD_TIMEOUT); this is for a
# server that drips.
_DEBUGINFOD_TIMEOUT = 300


class OpenFile(NamedTuple):
    """An open file and what it says of itself."""

    fd: int
    image: Image


def describe_file(parser: Sandbox, fd: int) -> Image:
    """Read what an ELF file says of itself, in a sandbox. SandboxError if it is none, or a broken
    one.
    """
    facts = parser.call("describe", [fd])
    link = facts.pop("link")
    segments = tuple(
        (int(at), int(size), int(address)) for at, size, address in facts.pop("segments")
    )
    return Image(
        segments=segments,
        link=(link[0], link[1]) if link else None,
        names=tuple(facts.pop("names")),
        **facts,
    )


def find_debug_file(
    parser: Sandbox, of: Image, path: str, root: Path, notes: list[str]
) -> OpenFile | None:
    """The separate debug file of a file that a process knows as ``path``, in its own file system
    and in ours, open; None if there is none. A debuginfod server is asked only where
    DEBUGINFOD_URLS names one.
    """
    for file_system in dict.fromkeys((root, Path("/"))):
        for place in _list_places(of, path):
            if debug_file := _open_matching_file(parser, file_system, place, of):
                return debug_file
    if of.build_id and os.environ.get("DEBUGINFOD_URLS"):
        return _ask_debuginfod(parser, of, path, notes)
    return None


def _list_places(of: Image, path: str) -> list[str]:
    places = []
    if re.fullmatch("[0-9a-f]{4,}", of.build_id):
        places.append(f"{_DEBUG_DIRECTORY}/.build-id/{of.build_id[:2]}/{of.build_id[2:]}.debug")
    if of.link and "/" not in of.link[0]:
        home, name = os.path.dirname(path).strip("/"), of.link[0]
        places += [f"{home}/{name}", f"{home}/.debug/{name}", f"{_DEBUG_DIRECTORY}/{home}/{name}"]
    return places


def _open_matching_file(parser: Sandbox, root: Path, place: str, of: Image) -> OpenFile | None:
    """A debug file, if it is that of this very build: another one's names would be wrong ones."""
    try:
        fd = target_files.open_file(root, place)
    except OSError:
        return None
    try:
        image = describe_file(parser, fd)
        if of.build_id or image.build_id:
            fits = image.build_id == of.build_id
        else:
            fits = of.link is not None and parser.call("compute_checksum", [fd]) == of.link[1]
    except SandboxError:
        fits = False
    if not fits:
        os.close(fd)
        return None
    return OpenFile(fd, image)


def _ask_debuginfod(parser: Sandbox, of: Image, path: str, notes: list[str]) -> OpenFile | None:
    client = shutil.which("debuginfod-find")
    if client is None:
        note = (
            "DEBUGINFOD_URLS is set, but debuginfod-find is not on this machine; apt-get install "
            "debuginfod"
        )
        if note not in notes:
            notes.append(note)
        return None
    try:
        client_run = subprocess.run(
            [client, "debuginfo", of.build_id],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEBUGINFOD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        notes.append(
            f"{path}: debuginfod has not sent its debug information within {_DEBUGINFOD_TIMEOUT} s"
        )
        return None
    # Not found is an ordinary answer.
    place = client_run.stdout.strip()
    return (
        _open_matching_file(parser, Path("/"), place, of)
        if client_run.returncode == 0 and place
        else None
    )
