"""Names for the addresses of a process, found from outside in the files that it has mapped.

The files may be hostile: they are opened inside the process's root, and read by a child without
rights (:mod:`dballoc.profile.symbols.symbol_tables`, or where the library symbolic is not installed
:mod:`dballoc.profile.symbols.plain_symbol_tables`). A file's symbol table is converted once to a
format that is quick to look up, and kept below dballoc's cache. Debug information is used only if
lines are asked for: with it MySQL 8.0.33 takes 16 s of CPU and 700 MB, without it 0.4 s and 110 MB,
and the names are the same except for inlined functions, which perf is told to leave out too.
"""

import itertools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_directory import replace_file
from dballoc.ground.user_directories import make_in_cache
from dballoc.host.abandonable import touches
from dballoc.host.process import open_in_process_root
from dballoc.host.unprivileged.sandbox import Sandbox, SandboxError
from dballoc.profile.model import Frame
from dballoc.profile.symbols import debug_files
from dballoc.profile.symbols.debug_files import OpenFile
from dballoc.profile.symbols.elf_notes import Image

# Bytes on disk of all tables; the sandbox lets one have half of it (give_up_rights.py).
MOST_BYTES = 1 << 30
_SUFFIX = ".symcache"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_cache() -> Iterator["TableCache | None"]:
    """Yield the cache of tables; None if there is none."""
    try:
        directory = os.open(make_in_cache("symbols"), _DIRECTORY)
    except (UsageError, OSError):
        yield None
        return
    try:
        yield TableCache(directory)
    finally:
        os.close(directory)


class TableCache:
    """The tables in a directory that is open as ``directory``: ``most`` bytes in all."""

    def __init__(self, directory: int, most: int = MOST_BYTES) -> None:
        self._directory = directory
        self._most = most

    def open_table(self, name: str) -> int | None:
        """Open a table for reading, and note that it is used now. None if it is not there."""
        try:
            fd = os.open(
                name + _SUFFIX, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory
            )
        except OSError:
            return None
        os.utime(fd)
        return fd

    def make_table(self, name: str, write: Callable[[int], object]) -> None:
        """Keep the table that ``write`` writes to a descriptor, in place of any of that name, and
        remove what is too much then. Raises OSError if that fails; what ``write`` raises; in both
        cases nothing is kept.
        """
        with replace_file(self._directory, name + _SUFFIX, 0o600) as file:
            write(file.fileno())
        self._prune()

    def _prune(self) -> None:
        tables = []
        for name in os.listdir(self._directory):
            try:
                status = os.stat(name, dir_fd=self._directory, follow_symlinks=False)
            except FileNotFoundError:
                continue  # another dballoc was quicker
            tables.append((status.st_mtime_ns, name, status.st_blocks * 512))
        for name in choose_superfluous(tables, self._most):
            self._remove(name)

    def _remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._directory)
        except OSError:
            pass  # another dballoc was quicker, or it is no file


def choose_superfluous(tables: Iterable[tuple[int, str, int]], most: int) -> list[str]:
    """Choose the tables to remove so that the others have at most ``most`` bytes: those that were
    not used for longest. ``tables``: when each was used, its name, its bytes. Unfinished tables,
    which a killed dballoc left or another is writing, are among them. Pure.
    """
    ordered = sorted(tables, reverse=True)
    sums = itertools.accumulate(size for _, _, size in ordered)
    return [name for (_, name, _), total in zip(ordered, sums, strict=True) if total > most]


# What reads symbol tables, and the format of the tables in the cache: the library symbolic of this
# version, or our own reader where that is not installed.
if find_spec("symbolic") is not None:
    _PARSER, _FORMAT = "symbol_tables", metadata.version("symbolic")
else:
    _PARSER, _FORMAT = "plain_symbol_tables", "plain"

# What /proc/PID/maps appends to the path of a file that was removed or replaced.
_DELETED = " (deleted)"

_NOWHERE = Frame("[unknown]", named=False)
_ANONYMOUS = Frame("[anonymous]", named=False)


class Mapped(NamedTuple):
    """A line of /proc/PID/maps: ``offset``: where in the file the mapping begins; ``build_id``: as
    read from the process's memory, empty if it was not read.
    """

    start: int
    end: int
    offset: int
    path: str
    build_id: str = ""


@dataclass(frozen=True)
class _Module:
    """A mapped file. ``parser``: looks up its functions, None if its symbols cannot be read;
    ``base``: the address that the symbols count from; ``complete``: all functions have symbols.
    """

    image: Image
    parser: Sandbox | None
    base: int
    complete: bool


class Symbols:
    """Looks up functions by address. ``root``: the file system that the process sees,
    ``/proc/PID/root``; ``lines``: whether to find source files, lines and inlined functions too,
    from debug information; ``notes``: one line for each file whose functions have no names, or not
    all, with the reason.
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
        """Return the function at an address; several, the outermost first, where functions were
        inlined and lines are asked for. A return address is that of the next instruction: look it
        up at address - 1.
        """
        mapped = self._find_mapping(maps, address)
        if mapped is None:
            return (_NOWHERE,)
        if not mapped.path:
            return (_ANONYMOUS,)
        if mapped.path.startswith("["):
            return (Frame(mapped.path, mapped.path, named=False),)
        return self._resolve_cached(mapped, address - mapped.start + mapped.offset)

    def resolve_offset(self, path: str, offset: int) -> Frame:
        """Return the function at an offset of a file, taking the file that is there now for it."""
        return self._resolve_cached(Mapped(0, 0, 0, path), offset)[-1]

    def _resolve_cached(self, mapped: Mapped, offset: int) -> tuple[Frame, ...]:
        key = mapped.path, mapped.build_id, offset
        if key not in self._frames:
            self._frames[key] = self._resolve_offset(mapped, offset)
        return self._frames[key]

    def _find_mapping(self, maps: Sequence[Mapped], address: int) -> Mapped | None:
        if maps is not self._maps:
            self._maps, self._sorted = maps, sorted(maps)
            self._starts = [mapped.start for mapped in self._sorted]
        i = bisect_right(self._starts, address) - 1
        return self._sorted[i] if i >= 0 and address < self._sorted[i].end else None

    def _resolve_offset(self, mapped: Mapped, offset: int) -> tuple[Frame, ...]:
        name = PurePosixPath(mapped.path.removesuffix(_DELETED)).name
        module = self._get_module(mapped)
        if module is None:
            return (Frame(f"{name}+{offset:#x}", name, named=False),)
        address = module.image.address(offset)
        frames = self._resolve_address(mapped, module, address - module.base, name)
        if frames:
            return frames
        if module.parser and not module.complete:
            self._add_note(
                f"{mapped.path}: only its exported functions have names, the others print as "
                f"{name}+0x…; install the package with its debug symbols, or set DEBUGINFOD_URLS"
            )
        return (Frame(f"{name}+{address:#x}", name, named=False),)

    def _resolve_address(
        self, mapped: Mapped, module: _Module, address: int, name: str
    ) -> tuple[Frame, ...]:
        if module.parser is None or not 0 <= address < 2**64:
            return ()
        try:
            functions = module.parser.call("look_up", [], address, name)
        except SandboxError as error:
            self._note_unreadable(mapped, str(error))
            self._modules[mapped.path, mapped.build_id] = replace(module, parser=None)
            return ()
        return tuple(
            Frame(str(function), name, file=str(file), line=int(line))
            for function, file, line in functions
        )

    def _get_module(self, mapped: Mapped) -> _Module | None:
        key = mapped.path, mapped.build_id
        if key not in self._modules:
            self._modules[key] = self._open_module(mapped)
        return self._modules[key]

    def _open_module(self, mapped: Mapped) -> _Module | None:
        parser = Sandbox(f"dballoc.profile.symbols.{_PARSER}")
        file = self._open_mapped_file(mapped, parser)
        if file is None:
            parser.close()
            return None
        path = mapped.path.removesuffix(_DELETED)
        source = file
        if not file.image.complete:
            debug_file, note = debug_files.find_debug_file(parser, file.image, path, self.root)
            source = debug_file or file
            if note:
                self._add_note(note)
        try:
            _load_table(parser, source, self.lines)
            return _Module(file.image, parser, source.image.base, source.image.complete)
        except SandboxError as error:
            self._note_unreadable(mapped, str(error))
            parser.close()
            return _Module(file.image, None, 0, complete=False)
        finally:
            for fd in {file.fd, source.fd}:
                os.close(fd)

    def _open_mapped_file(self, mapped: Mapped, parser: Sandbox) -> OpenFile | None:
        """Open the file that is mapped; None, with a note, if it is not there any more."""
        path = mapped.path.removesuffix(_DELETED)
        deleted = path != mapped.path
        build_id_now = ""
        try:
            file = _describe_file(parser, open_in_process_root.open_file(self.root, path))
            if file.image.build_id == mapped.build_id or not (mapped.build_id or deleted):
                return file
            build_id_now = file.image.build_id
            os.close(file.fd)
        except (OSError, SandboxError) as error:
            if not deleted:
                reason = error.strerror if isinstance(error, OSError) else error
                self._add_note(f"{path}: {reason or error}, so its functions have no names")
        # The mapped file itself, if the process still lives and we may open it
        # (CAP_CHECKPOINT_RESTORE, proc(5)).
        try:
            link = self.root.parent / "map_files" / f"{mapped.start:x}-{mapped.end:x}"
            file = _describe_file(parser, open_in_process_root.open_link(os.fspath(link)))
            if file.image.build_id == mapped.build_id or not mapped.build_id:
                return file
            os.close(file.fd)
        except (OSError, SandboxError):
            pass
        if deleted or build_id_now:
            now = (
                f" (build-id {build_id_now[:12]} now, {mapped.build_id[:12]} mapped)"
                if build_id_now and mapped.build_id
                else ""
            )
            self._add_note(
                f"{path}: replaced since it was mapped{now}, so its functions have no names; "
                "restart the process"
            )
        return None

    def _note_unreadable(self, mapped: Mapped, reason: str) -> None:
        path = mapped.path.removesuffix(_DELETED)
        self._add_note(
            f"{path}: its symbols cannot be read, so its functions have no names: {reason}"
        )

    def _add_note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)


def _describe_file(parser: Sandbox, fd: int) -> OpenFile:
    """Read an open file's description of itself. SandboxError, with the file closed, if it is no
    ELF file.
    """
    try:
        with touches.touching_file(fd):
            return OpenFile(fd, debug_files.describe_file(parser, fd))
    except BaseException:
        os.close(fd)
        raise


def _load_table(parser: Sandbox, source: OpenFile, lines: bool) -> None:
    """Have the sandbox read the lookup table of a file from the cache, or make and keep it. Raises
    SandboxError if it cannot.
    """

    def make(*descriptors: int) -> None:
        with touches.touching_file(source.fd):
            parser.call("make_table", [source.fd, *descriptors], lines, source.image.names)

    with open_cache() as cache:
        name = _choose_table_name(source, lines)
        if cache is None or not name:
            make()
        elif not _read_cached_table(parser, cache, name):
            try:
                cache.make_table(name, make)
            except OSError:
                make()


def _read_cached_table(parser: Sandbox, cache: TableCache, name: str) -> bool:
    fd = cache.open_table(name)
    if fd is None:
        return False
    try:
        parser.call("read_table", [fd])
        return True
    except SandboxError:
        return False  # a broken table is made again
    finally:
        os.close(fd)


def _choose_table_name(source: OpenFile, lines: bool) -> str:
    """Return the name under which the table of a file is kept; empty if it cannot be. It depends on
    the file's inode too, as any file may claim any build-id.
    """
    if not source.image.build_id:
        return ""
    kind = f"{'all' if source.image.complete else 'exported'}-{'lines' if lines else 'functions'}"
    status = os.fstat(source.fd)
    identity = f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"
    # The table's addresses count from the file's base, which patchelf moves in a fetched server
    # without changing the build-id.
    return f"{source.image.build_id[:64]}-{identity}-{source.image.base:x}-{kind}-{_FORMAT}"
