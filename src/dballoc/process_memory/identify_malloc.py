"""Which malloc a running process really uses, and with which settings, read from outside."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dballoc import readers
from dballoc.allocators import library_version, proof_of_use
from dballoc.catalogue import allocators
from dballoc.fetch import private_store
from dballoc.host import open_in_process_root, process_maps, process_root
from dballoc.host.elf import loader
from dballoc.host.process_environment import parse_environment
from dballoc.host.settings import thp
from dballoc.process_memory import malloc_bindings

# Our libraries that pass calls on to the malloc behind them.
_PROBES = ("libdballoc_probe.so", "libdballoc_trace.so")

# The variables that glibc reads beside GLIBC_TUNABLES (mallopt(3), "Environment variables").
_GLIBC_VARIABLES = (
    "MALLOC_ARENA_",
    "MALLOC_CHECK_",
    "MALLOC_MMAP_",
    "MALLOC_PERTURB_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_",
)

_NOT_CALLED = "; the program has not called it yet, and this is the first library that has one"


@dataclass(frozen=True, kw_only=True)
class MallocInUse:
    """The malloc that a process uses, or will use with its first call.

    ``name``: the catalogue's, None for a library that it does not know; ``how``: why the process
    uses it; ``mixed``: the libraries of symbols that another one provides, by symbol; ``settings``:
    the environment variables that configure it; ``idle``: what in its environment has no effect,
    with the reason; ``thp``: the mode that the process has.
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


def identify_malloc_in_use(pid: int) -> MallocInUse:
    """Identify the malloc of a process.
    :class:`dballoc.process_memory.malloc_bindings.UnreadableProcess` if the process cannot be read,
    or has no malloc of a library.
    """
    bindings = malloc_bindings.read_bindings(pid)
    try:
        executable = loader.find_main_program(pid)
        environ = parse_environment(readers.of_process(f"/proc/{pid}/environ"), "replace")
        thp_mode, mapped = thp.describe_process_mode(pid), process_maps.list_mapped_files(pid)
    except OSError as error:
        raise malloc_bindings.UnreadableProcess(
            malloc_bindings.describe_read_error(pid, error)
        ) from None
    bindings = {symbol: find_malloc_behind_probe(lib, mapped) for symbol, lib in bindings.items()}
    bound = bindings.get("malloc") or bindings.get("free")
    library = bound or find_malloc_behind_probe(
        malloc_bindings.find_library_of_first_call(pid), mapped
    )
    name = find_catalogue_name(library)
    mixed = {
        s: lib
        for s, lib in bindings.items()
        if not _is_same_allocator(lib, library)
        and not proof_of_use.calls_the_family(s, lib, executable)
    }
    entry = allocators()[name] if name else None
    return MallocInUse(
        pid=pid,
        executable=executable,
        name=name,
        title=entry["title"] if entry else Path(library).name,
        version=_read_version(pid, name, library, mapped),
        library=library,
        how=_explain_use(library, executable, environ) + ("" if bound else _NOT_CALLED),
        mixed=mixed,
        settings=_list_settings(environ, entry) if entry else {},
        idle=list_ineffective_settings(environ, library, mapped),
        thp=thp_mode,
    )


def find_malloc_behind_probe(library: str, mapped: Iterable[str]) -> str:
    """Return the malloc that our probe passes calls on to: the catalogue's allocator that the
    process has mapped, glibc's if there is no other. Any other library is returned as it is.
    """
    if Path(library).name not in _PROBES:
        return library
    names = {path: name for path in mapped if (name := find_catalogue_name(path))}
    return next(
        (path for path, name in names.items() if name != "glibc"), next(iter(names), library)
    )


def read_ld_preload(pid: int) -> list[str]:
    """Return the entries of a process's LD_PRELOAD as they are written there. OSError if it cannot
    be read.
    """
    return _list_preloads(parse_environment(readers.of_process(f"/proc/{pid}/environ"), "replace"))


def find_catalogue_name(library: str) -> str | None:
    """Return the catalogue's name of the allocator that a file belongs to, by its soname; None if
    the catalogue does not know it.
    """
    stem = _strip_suffixes(library)
    for name, entry in allocators().items():
        for sonames in (*entry.get("preload", []), *entry.get("provider", [])):
            if any(stem == _strip_suffixes(soname) for soname in sonames.split("|")):
                return name
    return None


def select_settings(environ: dict[str, str], variable: str | None) -> dict[str, str]:
    """Return the variables of an environment that configure a malloc. ``variable``: the
    catalogue's, maybe with ``{NAME}``.
    """
    start = (variable or "").partition("{")[0]
    if not start:
        return {}
    starts = (start, *_GLIBC_VARIABLES) if start == "GLIBC_TUNABLES" else (start,)
    return {k: v for k, v in environ.items() if k.startswith(starts)}


def _list_settings(environ: dict[str, str], entry: dict[str, Any]) -> dict[str, str]:
    """Return the variables that configure an allocator; for one that registers rseq itself, also
    the one that keeps glibc from it.
    """
    rseq = {"GLIBC_TUNABLES"} & environ.keys() if "rseq" in entry else set()
    return select_settings(environ, entry["tunables"].get("env")) | {v: environ[v] for v in rseq}


def list_ineffective_settings(
    environ: dict[str, str], library: str, mapped: set[str]
) -> dict[str, str]:
    """Return what in an environment has no effect, with the reason: preloads that are not loaded or
    not used, and settings of another malloc than ``library``.
    """
    stems = {_strip_suffixes(path) for path in mapped}
    reasons = {}
    used = find_catalogue_name(library)
    for path in _list_preloads(environ):
        other = find_catalogue_name(path)
        if _strip_suffixes(path) not in stems:
            reasons[path] = (
                "LD_PRELOAD names it, but it is not loaded: missing, unreadable, or built for "
                "another system"
            )
        elif other and other != used:
            reasons[path] = (
                "LD_PRELOAD names it and it is loaded, but malloc comes from another library"
            )
    effective = select_settings(environ, allocators()[used]["tunables"].get("env")) if used else {}
    for name, entry in allocators().items():
        for variable, value in select_settings(environ, entry["tunables"].get("env")).items():
            # The loader and other parts of glibc read GLIBC_TUNABLES too.
            if variable not in effective and (
                variable != "GLIBC_TUNABLES" or "glibc.malloc." in value
            ):
                reasons[variable] = f"a setting of {name}, which is not in use"
    return reasons


def _list_preloads(environ: dict[str, str]) -> list[str]:
    return [p for p in re.split("[: ]", environ.get("LD_PRELOAD", "")) if p]


def _strip_suffixes(path: str) -> str:
    # Before glibc 2.34, libc.so.6 is a link to libc-2.31.so or the like.
    return re.sub(r"-\d[\d.]*$", "", Path(path).name.partition(".so")[0])


def _explain_use(library: str, executable: str, environ: dict[str, str]) -> str:
    if library == executable:
        return "it is built into the executable"
    if any(_strip_suffixes(p) == _strip_suffixes(library) for p in _list_preloads(environ)):
        return "LD_PRELOAD in its environment"
    if find_catalogue_name(library) == "glibc":
        return (
            "what LD_PRELOAD asks for is not used"
            if _preloads_other_malloc(environ)
            else "nothing else was preloaded"
        )
    return "the executable is linked against it, or /etc/ld.so.preload names it"


def _preloads_other_malloc(environ: dict[str, str]) -> bool:
    return any(find_catalogue_name(p) not in (None, "glibc") for p in _list_preloads(environ))


def _read_version(pid: int, name: str | None, library: str, mapped: Iterable[str]) -> str:
    """Read the version of an allocator from the file that is mapped, or from our store's manifest
    where it is one of the store's files. Nothing is loaded.
    """
    if name is None:
        return ""
    entry = allocators()[name]
    soname = entry.get("version", {}).get("library", "")
    path = library
    if not Path(library).name.startswith(soname):
        path = next((other for other in mapped if Path(other).name.startswith(soname)), library)
    try:
        fd = open_in_process_root.open_file(
            open_in_process_root.root_of(pid), process_root.strip_process_root(pid, path)
        )
    except OSError:
        return library_version.UNKNOWN
    try:
        if (kept := private_store.find_owner(Path(path))) and _is_file(fd, path):
            return kept.version
        return library_version.read_version(entry, fd, path)
    finally:
        os.close(fd)


def _is_file(fd: int, path: str) -> bool:
    """Whether an open file is the one that we see at a path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def _is_same_allocator(library: str, other: str) -> bool:
    return (
        library == other or find_catalogue_name(library) == find_catalogue_name(other) is not None
    )
