"""Find the debug information of a stripped file: beside it, below /usr/lib/debug, or on a
debuginfod server.

The search is gdb's (its manual, "Debugging Information in Separate Files"): by build-id, then by
the file's debug link.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from dballoc.host.abandonable import touches
from dballoc.host.process import open_in_process_root
from dballoc.host.unprivileged.sandbox import Sandbox, SandboxError
from dballoc.profile.symbols.elf_notes import Image

_DEBUG_DIRECTORY = "usr/lib/debug"

# Seconds. debuginfod-find ends by itself when nothing comes for 90 s (DEBUGINFOD_TIMEOUT); this is
# for a server that sends a little at a time.
_DEBUGINFOD_TIMEOUT = 300


class OpenFile(NamedTuple):
    """An open ELF file, and its description of itself."""

    fd: int
    image: Image


def describe_file(parser: Sandbox, fd: int) -> Image:
    """Read an ELF file's description of itself, in a sandbox. Raises SandboxError if it is not a
    sound one.
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
    parser: Sandbox, image: Image, path: str, root: Path
) -> tuple[OpenFile | None, str]:
    """Open the separate debug file of a file that a process knows as ``path``: in the process's
    file system, in ours, or, if DEBUGINFOD_URLS names one, from a debuginfod server. Return it,
    None if there is none, and a note on why the server did not answer, else an empty text.
    """
    for file_system in dict.fromkeys((root, Path("/"))):
        for place in _list_places(image, path):
            if debug_file := _open_matching_file(parser, file_system, place, image):
                return debug_file, ""
    if image.build_id and os.environ.get("DEBUGINFOD_URLS"):
        return _ask_debuginfod(parser, image, path)
    return None, ""


def _list_places(image: Image, path: str) -> list[str]:
    places = []
    build_id = image.build_id
    if re.fullmatch("[0-9a-f]{4,}", build_id):
        places.append(f"{_DEBUG_DIRECTORY}/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    if image.link and "/" not in image.link[0]:
        home, name = os.path.dirname(path).strip("/"), image.link[0]
        places += [f"{home}/{name}", f"{home}/.debug/{name}", f"{_DEBUG_DIRECTORY}/{home}/{name}"]
    return places


def _open_matching_file(parser: Sandbox, root: Path, place: str, image: Image) -> OpenFile | None:
    """Open a debug file, if it belongs to this very build; the names of another would be wrong."""
    try:
        fd = open_in_process_root.open_file(root, place)
    except OSError:
        return None
    try:
        with touches.touching_file(fd):
            debug_image = describe_file(parser, fd)
            if image.build_id or debug_image.build_id:
                fits = debug_image.build_id == image.build_id
            else:
                fits = image.link is not None and (
                    parser.call("compute_checksum", [fd]) == image.link[1]
                )
    except SandboxError:
        fits = False
    if not fits:
        os.close(fd)
        return None
    return OpenFile(fd, debug_image)


def _ask_debuginfod(parser: Sandbox, image: Image, path: str) -> tuple[OpenFile | None, str]:
    """Ask a debuginfod server for a file's debug file. Return it, and a note as
    :func:`find_debug_file`.
    """
    client = shutil.which("debuginfod-find")
    if client is None:
        return None, (
            "DEBUGINFOD_URLS is set, but debuginfod-find is not on this machine; apt-get install "
            "debuginfod"
        )
    try:
        client_run = subprocess.run(
            [client, "debuginfo", image.build_id],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEBUGINFOD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        note = f"{path}: debuginfod did not send its debug information in {_DEBUGINFOD_TIMEOUT} s"
        return None, note
    place = client_run.stdout.strip()
    if client_run.returncode or not place:
        return None, ""  # the server does not have it
    return _open_matching_file(parser, Path("/"), place, image), ""
