"""Which malloc a running process really uses, and with which settings; read from outside."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dballoc import readers
from dballoc.allocators import library_version
from dballoc.catalogue import allocators
from dballoc.fetch import private_store
from dballoc.host import process_root, target_files
from dballoc.host.elf import loader
from dballoc.host.settings import thp
from dballoc.process_memory import malloc_bindings

_PROBE = "libdballoc_probe.so"

# What glibc reads beside GLIBC_TUNABLES (mallopt(3), "Environment variables").
_GLIBC_OLD = (
    "MALLOC_ARENA_",
    "MALLOC_CHECK_",
    "MALLOC_MMAP_",
    "MALLOC_PERTURB_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_",
)


@dataclass(frozen=True, kw_only=True)
class InUse:
    """``name``: the catalogue's, None for a library that it does not know; ``how`` it came to be
    used; ``mixed``: symbols that lead elsewhere, by symbol; ``settings``: the environment's
    variables that steer it; ``idle``: what its environment asks for in vain, with the reason;
    ``thp`` as achieved.
    """

    pid: int
    executable: str
    name: str | None
    title: str
    version: str
    library: str
    how: str
    mixed: dict[str, str]
    settings: dict[str, str]
    idle: dict[str, str]
    thp: str


def identify(pid: int) -> InUse:
    """Look at a process. :class:`dballoc.process_memory.malloc_bindings.Unreadable` if that is not
    possible.
    """
    bindings = malloc_bindings.bindings(pid)
    try:
        executable = loader.program(pid)
        environ = _environment(readers.of_process(f"/proc/{pid}/environ"))
        achieved, mapped = thp.achieved(pid), malloc_bindings.mapped(pid)
    except OSError as error:
        raise malloc_bindings.Unreadable(malloc_bindings.refusal(pid, error)) from None
    bindings = {symbol: behind(library, mapped) for symbol, library in bindings.items()}
    library = bindings.get("malloc") or bindings.get("free")
    if library is None:
        raise malloc_bindings.Unreadable(
            f"process {pid}: its executable calls no malloc of a library; it may carry its own"
        )
    name = catalogue_name(library)
    mixed = {
        s: lib
        for s, lib in bindings.items()
        if not _same(lib, library) and not _calls_malloc(s, lib, executable)
    }
    entry = allocators()[name] if name else None
    return InUse(
        pid=pid,
        executable=executable,
        name=name,
        title=entry["title"] if entry else Path(library).name,
        version=_version(pid, name, library, mapped),
        library=library,
        how=_how(library, executable, environ),
        mixed=mixed,
        settings=settings(environ, entry["tunables"].get("env") if entry else None),
        idle=idle(environ, library, mapped),
        thp=achieved,
    )


def behind(library: str, mapped: Iterable[str]) -> str:
    """The malloc to which our probe hands calls on: one of the catalogue that is there, glibc's if
    there is no other.
    """
    if Path(library).name != _PROBE:
        return library
    known = {path: name for path in mapped if (name := catalogue_name(path))}
    return next(
        (path for path, name in known.items() if name != "glibc"), next(iter(known), library)
    )


def preloaded(pid: int) -> list[str]:
    """The entries of a process's LD_PRELOAD, as they are written there. OSError if it cannot be
    read.
    """
    words = _environment(readers.of_process(f"/proc/{pid}/environ")).get("LD_PRELOAD", "")
    return [word for word in re.split("[: ]", words) if word]


def catalogue_name(library: str) -> str | None:
    """The allocator that a file belongs to, by its soname; None if the catalogue does not
    know it.
    """
    stem = _stem(library)
    for name, entry in allocators().items():
        for sonames in (*entry.get("preload", []), *entry.get("provider", [])):
            if any(stem == _stem(soname) for soname in sonames.split("|")):
                return name
    return None


def settings(environ: dict[str, str], variable: str | None) -> dict[str, str]:
    """The variables of an environment that steer this malloc. ``variable``: the catalogue's, maybe
    with ``{NAME}``.
    """
    start = (variable or "").partition("{")[0]
    if not start:
        return {}
    starts = (start, *_GLIBC_OLD) if start == "GLIBC_TUNABLES" else (start,)
    return {k: v for k, v in environ.items() if k.startswith(starts)}


def idle(environ: dict[str, str], library: str, mapped: set[str]) -> dict[str, str]:
    """What an environment asks for in vain: preloads that are not loaded or not used, settings of
    another malloc.
    """
    stems, found = {_stem(path) for path in mapped}, {}
    used = catalogue_name(library)
    for path in _preloads(environ):
        other = catalogue_name(path)
        if _stem(path) not in stems:
            found[path] = (
                "LD_PRELOAD names it, and it is not loaded: missing, unreadable, or built for "
                "another system"
            )
        elif other and other != used:
            found[path] = "LD_PRELOAD names it and it is loaded, but malloc leads elsewhere"
    mine = settings(environ, allocators()[used]["tunables"].get("env")) if used else {}
    for name, entry in allocators().items():
        for variable, value in settings(environ, entry["tunables"].get("env")).items():
            # The loader and other parts of glibc read GLIBC_TUNABLES too.
            if variable not in mine and (variable != "GLIBC_TUNABLES" or "glibc.malloc." in value):
                found[variable] = f"a setting of {name}, which is not in use"
    return found


def _preloads(environ: dict[str, str]) -> list[str]:
    return [p for p in re.split("[: ]", environ.get("LD_PRELOAD", "")) if p]


def _stem(path: str) -> str:
    # libc-2.31.so is what libc.so.6 leads to before glibc 2.34.
    return re.sub(r"-\d[\d.]*$", "", Path(path).name.partition(".so")[0])


def _environment(raw: bytes) -> dict[str, str]:
    pairs = (
        item.decode(errors="replace").partition("=") for item in raw.split(b"\0") if b"=" in item
    )
    return {name: value for name, _, value in pairs}


def _how(library: str, executable: str, environ: dict[str, str]) -> str:
    if library == executable:
        return "it is built into the executable"
    if any(_stem(p) == _stem(library) for p in _preloads(environ)):
        return "LD_PRELOAD in its environment"
    if catalogue_name(library) == "glibc":
        return (
            "what LD_PRELOAD asks for is not used"
            if _asked_other(environ)
            else "nothing else was preloaded"
        )
    return "the executable is linked against it, or /etc/ld.so.preload names it"


def _asked_other(environ: dict[str, str]) -> bool:
    return any(catalogue_name(p) not in (None, "glibc") for p in _preloads(environ))


def _version(pid: int, name: str | None, library: str, mapped: Iterable[str]) -> str:
    """By the bytes of the file that is mapped, or by our store's word where it is a file of that.
    Nothing is loaded.
    """
    if name is None:
        return ""
    entry = allocators()[name]
    soname = entry.get("version", {}).get("library", "")
    path = library
    if not Path(library).name.startswith(soname):
        path = next((other for other in mapped if Path(other).name.startswith(soname)), library)
    try:
        fd = target_files.open_file(target_files.root_of(pid), process_root.own(pid, path))
    except OSError:
        return library_version.UNKNOWN
    try:
        if (kept := private_store.owner(Path(path))) and _is_file(fd, path):
            return kept.version
        return library_version.read_version(entry, fd, path)
    finally:
        os.close(fd)


def _is_file(fd: int, path: str) -> bool:
    """Whether an open file is also the one that we see at a path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def _same(one: str, other: str) -> bool:
    return one == other or catalogue_name(one) == catalogue_name(other) is not None


def _calls_malloc(symbol: str, library: str, executable: str) -> bool:
    """Libstdc++'s operator new, and a server's own (MySQL 5.5), call malloc, which is looked at by
    itself.
    """
    return symbol.startswith("_Zn") and ("libstdc++" in library or library == executable)
