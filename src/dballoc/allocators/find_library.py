"""Find an allocator's libraries on this machine, and say what a library is."""

import os
import struct
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dballoc.allocators import library_version
from dballoc.catalogue import allocators, look_up
from dballoc.errors import UsageError
from dballoc.fetch import fetch_sources, name_and_version, private_store
from dballoc.host import target_files
from dballoc.host.package_names import Packages

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
    """A malloc that is here: its catalogue name, the files to preload, its version.

    ``loader``: of the C library that the server has to run on, where that is not the server's own.
    ``own``: the real file that the server brings itself, where nothing is preloaded.
    """

    name: str
    libraries: tuple[Path, ...]
    version: str
    loader: Path | None = None
    own: Path | None = None

    @property
    def entry(self) -> dict[str, Any]:
        """Its row of the catalogue; of one given by path, glibc's without what is glibc's own."""
        return allocators().get(self.name) or {
            "title": self.name,
            "tunables": allocators()["glibc"]["tunables"],
        }

    @property
    def providers(self) -> tuple[str, ...]:
        """The files that may answer for malloc and its kin, resolved; for a built-in one,
        sonames.
        """
        if self.own is not None:
            return (os.fspath(self.own),)
        if self.entry.get("builtin"):
            return tuple(self.entry["provider"])
        return tuple(os.fspath(p.resolve()) for p in self.libraries)


@cache
def find(words: str) -> Allocator:
    """The allocator of ``NAME``: this machine's, else one that was fetched; of ``NAME@VERSION``:
    one that was fetched, else this machine's if it is that. UsageError, with what brings it, if it
    is not here.
    """
    name, version = name_and_version.split(words)
    entry = look_up(allocators(), name, "allocator")
    here = _of_machine(name, entry)
    if version is None and here:
        return here
    if kept := private_store.find(name, version):
        return Allocator(
            name=name, libraries=kept.libraries, version=kept.version, loader=kept.loader
        )
    if version is not None:
        if here and name_and_version.fits(version, here.version):
            return here
        raise fetch_sources.NotHere(f"allocator {words!r}", words)
    fetch = [f"dballoc fetch {name}"] if fetch_sources.of(name) else []
    install = (
        [f"apt-get install {Packages(entry['packages']).choose(entry['packages'])}"]
        if "packages" in entry
        else []
    )
    lacking = next(s for s in entry["preload"] if not any(map(_library, s.split("|"))))
    raise UsageError(
        f"allocator {name!r} is not on this machine: no {lacking.replace('|', ' or ')}; "
        f"install it: {', or '.join([*install, *fetch])}"
    )


def _of_machine(name: str, entry: dict[str, Any]) -> Allocator | None:
    """This machine's, or None."""
    if entry.get("builtin"):
        return Allocator(name=name, libraries=(), version=read_version(entry, []))
    libraries = [
        next(filter(None, map(_library, sonames.split("|"))), None) for sonames in entry["preload"]
    ]
    whole = tuple(path for path in libraries if path is not None)
    return (
        Allocator(name=name, libraries=whole, version=read_version(entry, list(whole)))
        if len(whole) == len(libraries)
        else None
    )


def own(found: Allocator, library: Path, version: str) -> Allocator:
    """The allocator as a server brings it itself, in that real file."""
    return replace(found, libraries=(), own=library, version=version)


def by_path(libraries: tuple[Path, ...]) -> Allocator:
    """An allocator that the catalogue does not know. UsageError unless the files are shared
    libraries for this machine.
    """
    for library in libraries:
        check_library(library)
    return Allocator(name=libraries[0].name, libraries=libraries, version="")


def check_library(path: Path) -> None:
    """UsageError unless the file is a shared library for this machine."""
    try:
        with path.open("rb") as f:
            head = f.read(20)
    except OSError as error:
        raise UsageError(f"preload {path}: {error.strerror}") from None
    if head[:4] != b"\x7fELF" or len(head) < 20:
        raise UsageError(f"preload {path}: not a shared library")
    order = "<" if head[5] == 1 else ">"
    kind, machine = struct.unpack(order + "HH", head[16:20])
    ours = next(k for k, v in _MACHINES.items() if v == os.uname().machine)
    if (head[4], machine) != (2, ours):
        theirs = _MACHINES.get(machine, f"machine {machine}") + (
            " (32 bit)" if head[4] == 1 else ""
        )
        raise UsageError(f"preload {path}: built for {theirs}, this machine is {_MACHINES[ours]}")
    if kind != 3:
        raise UsageError(f"preload {path}: not a shared library")


@cache
def _library_directories() -> list[Path]:
    cached = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False
    ).stdout
    paths = [Path(line.split(" => ")[1]).parent for line in cached.splitlines() if " => " in line]
    clang = sorted(Path("/usr/lib").glob("llvm-*/lib/clang/*/lib/linux"), reverse=True)
    return list(dict.fromkeys([*paths, *clang]))


def _library(soname: str) -> Path | None:
    for directory in _library_directories():
        path = directory / soname
        try:
            check_library(path)
        except UsageError:
            continue
        return path
    return None


def read_version(entry: dict[str, Any], libraries: list[Path]) -> str:
    """Read an allocator's version from its files; ``unknown`` if they don't tell. Of no file: the C
    library that we run on.
    """
    if not libraries:
        # "glibc 2.36"; confstr(3).
        return (os.confstr("CS_GNU_LIBC_VERSION") or library_version.UNKNOWN).rpartition(" ")[2]
    if (kept := private_store.owner(libraries[0])) and libraries[0].resolve() in {
        p.resolve() for p in kept.libraries
    }:
        return kept.version
    soname = entry.get("version", {}).get("library", "")
    library = next((p for p in libraries if p.name.startswith(soname)), libraries[-1]).resolve()
    try:
        fd = target_files.open_file(Path("/"), os.fspath(library))
    except OSError:
        return library_version.UNKNOWN
    try:
        return library_version.read_version(entry, fd, os.fspath(library))
    finally:
        os.close(fd)
