"""Names for the addresses of a process, found outside it in the files that it has mapped, by Sentry's library symbolic.

A server's table of functions is turned once into symbolic's lookup format, and kept by build-id below dballoc's cache. The
symbol tables alone are used unless lines are asked for: MySQL 8.0.33 with its debug information takes 16 s of CPU and 700 MB
that way, 0.4 s and 110 MB without, and its names are the same but for inlined functions, which perf is told to leave out too.
"""

import mmap
import os
import secrets
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from cffi import FFI
from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError
from symbolic.symcache import SYMCACHE_LATEST_VERSION, SymCache

from dballoc.errors import UsageError
from dballoc.host import places
from dballoc.profile import debuginfo, image, names
from dballoc.profile.image import Image, Unreadable
from dballoc.profile.model import Frame

# What /proc/PID/maps appends to the path of a file that was removed or replaced.
_DELETED = " (deleted)"

# What symbolic raises of a broken file: its own errors, or an archive of nothing.
_BROKEN = (SymbolicError, StopIteration, LookupError, OSError, ValueError)

# They have no size, so symbolic lets them reach to the next function: over calls of other libraries (.plt), or whatever was
# stripped.
_SIZELESS = ("_init", "_fini")

_NOWHERE = Frame("[unknown]", named=False)
_ANONYMOUS = Frame("[anonymous]", named=False)


class Mapped(NamedTuple):
    """A line of /proc/PID/maps: ``offset`` in the file of the first byte, ``build_id`` as the process's own memory has it, or
    empty where nobody looked.
    """

    start: int
    end: int
    offset: int
    path: str
    build_id: str = ""


class _Module(NamedTuple):
    image: Image
    source: Image  # where its symbols are: the same, or a debug file
    table: Any  # symbolic's SymCache; None if it could not be made


class Symbols:
    """``root``: the file system that the process sees, ``/proc/PID/root``. ``lines``: source files, lines and inlined functions
    too, from debug information. ``notes``: one line for each file whose functions have no names, or not all, and why.
    """

    def __init__(self, root: Path = Path("/"), lines: bool = False):
        self.root = root
        self.lines = lines
        self.notes: list[str] = []
        self._modules: dict[tuple[str, str], _Module | None] = {}
        self._frames: dict[tuple[str, str, int], tuple[Frame, ...]] = {}
        self._maps: Sequence[Mapped] = ()
        self._sorted: list[Mapped] = []
        self._starts: list[int] = []

    def resolve(self, maps: Sequence[Mapped], address: int) -> tuple[Frame, ...]:
        """The function that an address lies in; several, the outermost first, where functions were inlined and lines are asked
        for. A return address is that of the next instruction: look it up at address - 1.
        """
        mapped = self._mapping(maps, address)
        if mapped is None:
            return (_NOWHERE,)
        if not mapped.path:
            return (_ANONYMOUS,)
        if mapped.path.startswith("["):
            return (Frame(mapped.path, mapped.path, named=False),)
        offset = address - mapped.start + mapped.offset
        key = mapped.path, mapped.build_id, offset
        if key not in self._frames:
            self._frames[key] = self._look_up(mapped, offset)
        return self._frames[key]

    def _mapping(self, maps: Sequence[Mapped], address: int) -> Mapped | None:
        if maps is not self._maps:
            self._maps, self._sorted = maps, sorted(maps)
            self._starts = [mapped.start for mapped in self._sorted]
        i = bisect_right(self._starts, address) - 1
        return self._sorted[i] if i >= 0 and address < self._sorted[i].end else None

    def _look_up(self, mapped: Mapped, offset: int) -> tuple[Frame, ...]:
        name = PurePosixPath(mapped.path.removesuffix(_DELETED)).name
        module = self._module(mapped)
        if module is None:
            return (Frame(f"{name}+{offset:#x}", name, named=False),)
        address = module.image.address(offset)
        found = _frames(module.table, address - module.source.base, name) if module.table else ()
        if found:
            return found
        if module.table and not module.source.complete:
            self._note(
                f"{mapped.path}: only its exported functions have names, the others print as {name}+0x…; the package with its "
                "debug symbols brings them, or DEBUGINFOD_URLS"
            )
        return (Frame(f"{name}+{address:#x}", name, named=False),)

    def _module(self, mapped: Mapped) -> _Module | None:
        key = mapped.path, mapped.build_id
        if key not in self._modules:
            self._modules[key] = self._open(mapped)
        return self._modules[key]

    def _open(self, mapped: Mapped) -> _Module | None:
        found = self._image(mapped)
        if found is None:
            return None
        path = mapped.path.removesuffix(_DELETED)
        source = found
        if not found.complete:
            source = debuginfo.find(found, path, self.root, self.notes) or found
        try:
            return _Module(found, source, _table(source, self.lines))
        except _BROKEN as error:
            self._note(f"{path}: its symbols cannot be read, so its functions have no names: {str(error).splitlines()[0]}")
            return _Module(found, source, None)

    def _image(self, mapped: Mapped) -> Image | None:
        """The file that is mapped; None, with a note, if it is not to be had any more."""
        path = mapped.path.removesuffix(_DELETED)
        deleted = path != mapped.path
        there = ""
        try:
            found = image.read(self.root / path.lstrip("/"))
            if found.build_id == mapped.build_id or not (mapped.build_id or deleted):
                return found
            there = found.build_id
        except Unreadable as error:
            if not deleted:
                self._note(f"{path}: {error}, so its functions have no names")
        # The mapped file itself, while the process lives and we may (CAP_CHECKPOINT_RESTORE, proc(5)).
        try:
            found = image.read(self.root.parent / "map_files" / f"{mapped.start:x}-{mapped.end:x}")
            if found.build_id == mapped.build_id or not mapped.build_id:
                return found
        except Unreadable:
            pass
        if deleted or there:
            now = f" (build-id {there[:12]} now, {mapped.build_id[:12]} mapped)" if there and mapped.build_id else ""
            self._note(f"{path}: replaced since it was mapped{now}, so its functions have no names; restart the process")
        return None

    def _note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)


def _frames(table: Any, address: int, module: str) -> tuple[Frame, ...]:
    if not 0 <= address < 2**64:
        return ()
    try:
        # symbolic has the innermost first.
        found = list(reversed(table.lookup(address)))
    except _BROKEN:
        return ()
    said = [(f, names.public(f.symbol, module)) for f in found if f.symbol and f.symbol not in _SIZELESS]
    return tuple(Frame(names.readable(name), module, file=f.full_path or "", line=f.line) for f, name in said)


def _table(source: Image, lines: bool) -> Any:
    """The lookup table of a file; from the cache, if it has a build-id by which to find it there."""
    kept = _kept(source, lines)
    if kept is not None and kept.exists():
        try:
            return SymCache.open(os.fspath(kept))
        except _BROKEN:
            pass  # a broken one is made anew
    table = _made(source, lines)
    if kept is not None:
        fresh = kept.with_name(f".{secrets.token_hex(6)}")
        try:
            with fresh.open("wb") as f:
                table.dump_into(f)
            fresh.replace(kept)
        except OSError:
            fresh.unlink(missing_ok=True)  # a full disk: slower the next time
    return table


def _kept(source: Image, lines: bool) -> Path | None:
    if not source.build_id:
        return None
    try:
        home = places.cache() / "symbols"
        home.mkdir(exist_ok=True)
    except (UsageError, OSError):
        return None
    kind = f"{'all' if source.complete else 'exported'}-{'lines' if lines else 'functions'}"
    # The table counts from where the file is loaded, which patchelf moves (a fetched server was relinked) and the build-id does
    # not tell.
    return home / f"{source.build_id}-{source.base:x}-{kind}-{SYMCACHE_LATEST_VERSION}.symcache"


def _made(source: Image, lines: bool) -> Any:
    if lines:
        return SymCache.from_object(next(Archive.open(os.fspath(source.path)).iter_objects()))
    # symbolic reads debug information wherever it sees any, so it is shown none: in a private copy of the pages that hold the
    # sections' names, those of debug information have others.
    with source.path.open("rb") as f:
        view = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
    start, size = source.names
    hidden = view[start : start + size].replace(b".debug_", b".hidden").replace(b".zdebug_", b".zhidden")
    view[start : start + size] = hidden
    buffer = FFI().from_buffer(view)
    archive = Archive.from_bytes(buffer)
    table = SymCache.from_object(next(archive.iter_objects()))
    del archive  # before the bytes that it reads
    return table
