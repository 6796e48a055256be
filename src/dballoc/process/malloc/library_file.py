"""The file that a process has its malloc from: which version is in it, also if the file was
replaced or removed since. Nothing is loaded.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dballoc.allocators import library_version
from dballoc.catalogue import allocators
from dballoc.fetch import private_store
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.host.process.maps import MapsLine
from dballoc.host.unprivileged.sandbox import SandboxError

# What the kernel appends to the path of a file that is not there any more (proc_pid_maps(5)).
DELETED = " (deleted)"


def read_version(
    process: Process, name: str | None, library: str, mappings: Sequence[MapsLine]
) -> str:
    """Read the version of the catalogue's allocator ``name`` from the file that a process has
    mapped, or from our store's manifest where it is one of the store's files.
    """
    if name is None:
        return ""
    entry = allocators()[name]
    path = _choose_file(entry, library, mappings)
    try:
        fd = open_mapped_file(process, path, mappings)
    except OSError:
        return library_version.UNKNOWN
    try:
        if (kept := private_store.find_owner(Path(path))) and _is_file(fd, path):
            return kept.version
        return library_version.read_version(entry, fd, path.removesuffix(DELETED))
    finally:
        os.close(fd)


def describe_replacement(
    process: Process, name: str | None, library: str, version: str, mappings: Sequence[MapsLine]
) -> str | None:
    """Return in words what a restart will load where a process's malloc was in a file that is not
    there any more; None if it still is. ``version``: the one in use.
    """
    if not library.endswith(DELETED):
        return None
    entry = allocators()[name] if name else {}
    path = _choose_file(entry, library, mappings).removesuffix(DELETED)
    try:
        fd = open_in_process_root.open_file_of(process, path)
    except OSError:
        return f"{path} was removed since it was loaded: a restart will not find it there"
    try:
        new = library_version.read_version(entry, fd, path)
    finally:
        os.close(fd)
    begin = f"{path} was replaced since it was loaded: a restart loads"
    if library_version.UNKNOWN in (new, version):
        return f"{begin} another file, of version {new}"
    return f"{begin} {'another file of the same version' if new == version else 'version'} {new}"


def find_built_in_malloc(process: Process) -> str | None:
    """Find the catalogue's name of the malloc that a process's executable has built in, by a text
    that only this malloc has; None if there is none.
    """
    try:
        fd = open_in_process_root.open_link(f"{process.home}/exe")
    except OSError:
        return None
    try:
        # A program with another malloc has its C library's built in, too.
        marked = {name: entry for name, entry in allocators().items() if "mark" in entry}
        for name, entry in sorted(marked.items(), key=lambda item: _is_libc(item[1])):
            if ask_elf_parser("find_text", fd, f"({entry['mark']})"):
                return name
    except SandboxError:
        return None
    finally:
        os.close(fd)
    return None


def _is_libc(entry: dict[str, Any]) -> bool:
    return bool(entry.get("builtin")) or "libc" in entry


def _choose_file(entry: dict[str, Any], library: str, mappings: Sequence[MapsLine]) -> str:
    """Return the path of the file that shows an allocator's version."""
    soname = entry.get("version", {}).get("library", "")
    if Path(library).name.startswith(soname):
        return library
    return next((m.path for m in mappings if Path(m.path).name.startswith(soname)), library)


def open_mapped_file(process: Process, path: str, mappings: Sequence[MapsLine]) -> int:
    """Open the very file that a process has mapped. Raises OSError if that cannot be read."""
    if path.endswith(DELETED):
        line = next((m for m in mappings if m.path == path), None)
        if line:
            link = f"{process.home}/map_files/{line.start:x}-{line.end:x}"
            return open_in_process_root.open_link(link)
    return open_in_process_root.open_file_of(process, path)


def _is_file(fd: int, path: str) -> bool:
    """Whether an open file is the one that we see at a path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False
