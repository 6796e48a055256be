"""Find an allocator's libraries on this machine, check them, and read their version."""

import os
import struct
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dballoc.allocators import host_requirements, library_version
from dballoc.catalogue import allocators, look_up
from dballoc.fetch import closed_store, fetch_sources, name_and_version, private_store
from dballoc.ground.errors import UsageError
from dballoc.ground.files.foreign_file import open_foreign_file
from dballoc.host.package_names import Packages
from dballoc.host.process import open_in_process_root

_MACHINES = {
    3: "i386",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    21: "ppc64",
    22: "s390x",
}


@dataclass(frozen=True, kw_only=True)
class Allocator:
    """A malloc that is installed: its catalogue name, the files to preload, its version.

    ``loader``: that of the C library that the server has to run on, where that is not the server's
    own. ``server_library``: the real file that the server brings itself; nothing is preloaded then.
    """

    name: str
    libraries: tuple[Path, ...]
    version: str
    loader: Path | None = None
    server_library: Path | None = None

    @property
    def entry(self) -> dict[str, Any]:
        """Its row of the catalogue; for one given by path, a row with glibc's tunables alone."""
        return allocators().get(self.name) or {
            "title": self.name,
            "tunables": allocators()["glibc"]["tunables"],
        }

    @property
    def providers(self) -> tuple[str, ...]:
        """The files that may provide malloc and the other allocation functions, with links
        resolved; for a built-in allocator, sonames.
        """
        if self.server_library is not None:
            return (os.fspath(self.server_library),)
        if self.entry.get("builtin"):
            return tuple(self.entry["provider"])
        return tuple(os.fspath(p.resolve()) for p in self.libraries)


@cache
def find_allocator(words: str) -> Allocator:
    """Find an allocator. ``NAME``: this machine's, else a fetched one; ``NAME@VERSION``: a fetched
    one, else this machine's if it has that version. In a kit: what was carried for these words.
    Raises UsageError if there is none, with how to install it.
    """
    name, version = name_and_version.split_reference(words)
    entry = look_up(allocators(), name, "allocator")
    if closed := closed_store.open_closed_store():
        return _find_carried(closed, words, name, entry)
    installed = _find_installed(name, entry)
    if version is None and installed:
        return installed
    if kept := private_store.find_fetched(name, version):
        return Allocator(
            name=name, libraries=kept.libraries, version=kept.version, loader=kept.loader
        )
    if version is not None:
        if installed and name_and_version.is_version_of(version, installed.version):
            return installed
        raise fetch_sources.NotFetched(f"allocator {words!r}", words)
    fetch = [f"dballoc fetch {name}"] if fetch_sources.list_sources(name) else []
    install = (
        [f"apt-get install {Packages(entry['packages']).choose(entry['packages'])}"]
        if "packages" in entry
        else []
    )
    lacking = next(s for s in entry["preload"] if not any(map(find_shared_library, s.split("|"))))
    raise UsageError(
        f"allocator {name!r} is not on this machine: no {lacking.replace('|', ' or ')}; "
        f"install it: {', or '.join([*install, *fetch])}"
    )


def _find_carried(
    closed: closed_store.ClosedStore, words: str, name: str, entry: dict[str, Any]
) -> Allocator:
    """Find an allocator in a kit. The C library that servers run on is there in any case."""
    if entry.get("builtin") and words == name:
        return Allocator(name=name, libraries=(), version=read_version(entry, []))
    malloc, kept = closed.find_malloc(words)
    return Allocator(
        name=name,
        libraries=kept.libraries if kept else (),
        version=malloc.version,
        loader=kept.loader if kept else None,
    )


def _find_installed(name: str, entry: dict[str, Any]) -> Allocator | None:
    """Find an allocator among this machine's own libraries; None unless all its files are there."""
    if entry.get("builtin"):
        return Allocator(name=name, libraries=(), version=read_version(entry, []))
    libraries = []
    for sonames in entry["preload"]:
        path = next(filter(None, map(find_shared_library, sonames.split("|"))), None)
        if path is None:
            return None
        libraries.append(path)
    return Allocator(name=name, libraries=tuple(libraries), version=read_version(entry, libraries))


def use_server_library(allocator: Allocator, library: Path, version: str) -> Allocator:
    """Return the allocator as a server brings it itself: nothing to preload, in that real file."""
    return replace(allocator, libraries=(), server_library=library, version=version)


def make_allocator_of_files(libraries: tuple[Path, ...]) -> Allocator:
    """Return an allocator that the catalogue does not know, by its files. Raises UsageError unless
    these are shared libraries for this machine.
    """
    for library in libraries:
        check_library(library)
    return Allocator(name=libraries[0].name, libraries=libraries, version="")


def check_library(path: Path) -> None:
    """Check that a file is a shared library for this machine; UsageError if not."""
    try:
        with open_foreign_file(path) as f:
            head = f.read(20)
    except OSError as error:
        raise UsageError(f"preload {path}: {error.strerror}") from None
    if head[:4] != b"\x7fELF" or len(head) < 20:
        raise UsageError(f"preload {path}: not a shared library")
    order = "<" if head[5] == 1 else ">"
    kind, machine = struct.unpack(order + "HH", head[16:20])
    host_machine = next(k for k, v in _MACHINES.items() if v == os.uname().machine)
    if (head[4], machine) != (2, host_machine):
        target = _MACHINES.get(machine, f"machine {machine}") + (
            " (32 bit)" if head[4] == 1 else ""
        )
        raise UsageError(
            f"preload {path}: built for {target}, but this machine is {_MACHINES[host_machine]}"
        )
    if kind != 3:
        raise UsageError(f"preload {path}: not a shared library")


@cache
def _list_library_directories() -> list[Path]:
    loader_cache = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False
    ).stdout
    paths = [
        Path(line.split(" => ")[1]).parent for line in loader_cache.splitlines() if " => " in line
    ]
    clang = sorted(Path("/usr/lib").glob("llvm-*/lib/clang/*/lib/linux"), reverse=True)
    return list(dict.fromkeys([*paths, *clang]))


def find_shared_library(soname: str) -> Path | None:
    """Find a shared library for this machine where its loader looks; None if there is none."""
    for directory in _list_library_directories():
        path = directory / soname
        try:
            check_library(path)
        except UsageError:
            continue
        return path
    return None


def read_version(entry: dict[str, Any], libraries: list[Path]) -> str:
    """Read an allocator's version from its files; ``unknown`` if they do not show it. Of no files:
    the version of the C library that we run on.
    """
    if not libraries:
        return host_requirements.read_glibc_version() or library_version.UNKNOWN
    if (kept := private_store.find_owner(libraries[0])) and libraries[0].resolve() in {
        p.resolve() for p in kept.libraries
    }:
        return kept.version
    soname = entry.get("version", {}).get("library", "")
    library = next((p for p in libraries if p.name.startswith(soname)), libraries[-1]).resolve()
    try:
        fd = open_in_process_root.open_file(Path("/"), os.fspath(library))
    except OSError:
        return library_version.UNKNOWN
    try:
        return library_version.read_version(entry, fd, os.fspath(library))
    finally:
        os.close(fd)
