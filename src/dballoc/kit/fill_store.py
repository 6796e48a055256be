"""Fill a kit's store: entries as ``dballoc fetch`` makes them, whose programs and libraries find
everything in the store.

``NAME@VERSION/`` has a server, sysbench or malloc; ``libraries/`` the loader, the C library and all
else that comes from this machine's library directories. Mallocs stay as they are, byte for byte,
but for those that look for their own libraries in a directory of this machine.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dballoc.allocators.find_library import find_shared_library
from dballoc.fetch import private_store
from dballoc.fetch.closed_store import MARKER, CarriedMalloc, ClosedStore, format_marker
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.host.elf import patch_elf
from dballoc.kit.choose_parts import KitParts, MallocPart, ServerPart, name_entry
from dballoc.kit.find_libraries import LOADED_BY_NAME, find_libraries, read_needs
from dballoc.load.sysbench_command import Sysbench
from dballoc.servers import relink
from dballoc.servers.build import script

LIBRARIES = "libraries"
_FILES = "files"
_CHUNK = 1 << 20
# What sysbench's client library loads to log in to MySQL.
_LOGIN_PLUGINS = ("caching_sha2_password.so", "sha256_password.so", "mysql_clear_password.so")
_PLUGIN_PLACES = ("libmariadb3/plugin", "mariadb/plugin", "plugin")
_PROGRAM, _FILE = 0o755, 0o644


@dataclass(frozen=True, kw_only=True)
class CarriedPart:
    """A line of kit.json. ``sha256``: of its main file, as it was on this machine; ``bytes``: of
    all its files in the kit; ``origins``: the files that it consists of, on this machine.
    """

    kind: str
    name: str
    version: str
    sha256: str
    bytes: int
    entry: str
    origins: tuple[Path, ...]


@dataclass(kw_only=True)
class _StoreEntry:
    """A directory of the store that is being filled. ``base``: the directory on this machine whose
    layout it keeps; ``closed``: whether libraries below ``base`` belong to it.
    """

    place: Path
    base: Path
    root: Path
    closed: bool
    origins: list[Path] = field(default_factory=list)

    def target_of(self, path: Path) -> Path:
        """Return where a file goes: where it lies below ``base``, else into ``bin``."""
        for each in (path, path.resolve()):
            if each.is_relative_to(self.base):
                return self.root / each.relative_to(self.base)
        return self.root / "bin" / path.name

    def owns(self, path: Path) -> bool:
        """Whether a library is the entry's, not the machine's."""
        return self.closed and path.is_relative_to(self.base)


class StoreFiller:
    """Fills one store, a new directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.parts: list[CarriedPart] = []
        self._names: list[str] = [LIBRARIES, _FILES]
        self._servers: dict[str, str] = {}
        self._mallocs: dict[str, CarriedMalloc] = {}
        self._files: dict[str, str] = {}
        self._loaders: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._machine: dict[str, Path] = {}
        self._make_directory(place)

    def fill(self, parts: KitParts) -> None:
        """Carry all parts, and write the marker. Raises UsageError for what is missing."""
        loads = [path for malloc in parts.mallocs for path in malloc.allocator.libraries]
        loads += [path for path in parts.files if patch_elf.is_elf(path.resolve())]
        for malloc in parts.mallocs:
            self._carry_malloc(malloc)
        for path in parts.files:
            self._carry_file(path)
        for server in parts.servers:
            self._carry_server(server, loads)
        sysbench = self._carry_sysbench(parts.sysbench)
        self._describe_libraries()
        marker = ClosedStore(
            place=self.place,
            servers=self._servers,
            mallocs=self._mallocs,
            files=self._files,
            sysbench=sysbench,
            loaders=self._loaders,
            hashes=self._hashes,
        )
        self._write(self.place / MARKER, format_marker(marker))

    # -- parts -----------------------------------------------------------------------------------

    def _carry_server(self, part: ServerPart, loads: Iterable[Path]) -> None:
        build, fetched = part.build, part.fetched
        version = fetched.version if fetched else build.version.partition("-")[0]
        name, requested = (fetched.name, fetched.requested) if fetched else (build.family, version)
        entry = self._begin(name, requested, base=build.basedir, closed=not part.of_machine)
        for program in (build.executable, *part.programs):
            is_server = program == build.executable
            more = [*part.plugins, *loads] if is_server else []
            self._carry_program(program, entry, more)
        for path in part.plugins:
            self._copy_elf(path, entry.target_of(path), entry)
        if build.plugins:
            self._make_directory(entry.target_of(build.plugins))
        for path in _list_shared_files(part):
            self._copy(path, entry.target_of(path), entry.origins)
        manifest = {"name": name, "asked": requested, "version": version, "kind": "server"}
        self._end(entry, manifest, build.executable, fetched)
        self._servers |= dict.fromkeys(part.words, entry.place.name)

    def _carry_malloc(self, part: MallocPart) -> None:
        allocator, fetched = part.allocator, part.fetched
        if not allocator.libraries and not allocator.loader:
            self._mallocs[part.reference] = CarriedMalloc(entry=None, version=allocator.version)
            return
        requested = fetched.requested if fetched else allocator.version
        base = fetched.place if fetched else allocator.libraries[0].parent
        entry = self._begin(allocator.name, requested, base=base, closed=fetched is not None)
        entry.root = entry.place if fetched else entry.place / "lib"
        paths = list(allocator.libraries)
        if allocator.loader:
            paths += sorted(allocator.loader.parent.glob("*.so*"))
        for path in paths:
            self._copy_elf(path, entry.target_of(path), entry)
            if path in allocator.libraries:
                self._note_hash(entry.target_of(path))
        for library in allocator.libraries:
            self._carry_libraries(find_libraries(library, [], find_shared_library), entry)
        manifest = {
            "name": allocator.name,
            "asked": requested,
            "version": allocator.version,
            "kind": "allocator",
            "libraries": [
                os.fspath(entry.target_of(p).relative_to(entry.place)) for p in allocator.libraries
            ],
            "loader": fetched.manifest.get("loader") if fetched else None,
            "untried_build": fetched.untried_build if fetched else None,
        }
        self._end(entry, manifest, paths[0], fetched)
        self._mallocs[part.reference] = CarriedMalloc(
            entry=entry.place.name, version=allocator.version
        )

    def _carry_file(self, path: Path) -> None:
        digest = _hash_file(path)
        target = self.place / _FILES / digest[:12] / path.name
        entry = _StoreEntry(place=target.parent, base=path.parent, root=target.parent, closed=False)
        self._copy_elf(path, target, entry)
        self._note_hash(target)
        self._files[os.fspath(path)] = os.fspath(target.relative_to(self.place))
        if patch_elf.is_elf(target):
            self._carry_libraries(find_libraries(path, [], find_shared_library), entry)
        self.parts.append(
            CarriedPart(
                kind="file",
                name=os.fspath(path),
                version="",
                sha256=digest,
                bytes=target.stat().st_size,
                entry=f"{_FILES}/{target.parent.name}",
                origins=tuple(entry.origins),
            )
        )

    def _carry_sysbench(self, sysbench: Sysbench) -> str:
        """Carry sysbench, and return its executable's path in the store."""
        program = sysbench.executable.resolve()
        entry = self._begin("sysbench", sysbench.version, base=program.parent.parent, closed=False)
        plugins = []
        libraries = find_libraries(program, [], find_shared_library)
        for library in libraries.values():
            if library.name.startswith("libmariadb.so"):
                places = [library.resolve().parent / place for place in _PLUGIN_PLACES]
                plugins += [p for d in places for n in _LOGIN_PLUGINS if (p := d / n).is_file()]
        target = entry.root / "bin/sysbench"
        self._carry_program(program, entry, plugins, target)
        for path in plugins:
            self._copy_elf(path, entry.root / "lib/plugin" / path.name, entry)
        for path in sorted(sysbench.share.glob("*.lua")):
            self._copy(path, entry.root / "share/sysbench" / path.name, entry.origins)
        manifest = {"name": "sysbench", "asked": sysbench.version, "version": sysbench.version}
        self._end(entry, manifest | {"kind": "load"}, program, None)
        return os.fspath(target.relative_to(self.place))

    def _describe_libraries(self) -> None:
        """Note what came from this machine's library directories."""
        libc = self._machine.get("libc.so.6")
        libraries = self.place / LIBRARIES
        self.parts.append(
            CarriedPart(
                kind="c library",
                name="glibc",
                version=relink.glibc_version(libc.resolve()) if libc else "unknown",
                sha256=_hash_file(libc) if libc else "",
                bytes=_sum_bytes(libraries),
                entry=LIBRARIES,
                origins=tuple(self._machine.values()),
            )
        )

    # -- programs and libraries -------------------------------------------------------------------

    def _carry_program(
        self, program: Path, entry: _StoreEntry, loads: Iterable[Path], target: Path | None = None
    ) -> None:
        """Carry a program with all that it loads. Its loader is named at the first start."""
        target = target or entry.target_of(program)
        self._copy(program, target, entry.origins, _PROGRAM)
        interpreter = patch_elf.read_interpreter(program)
        if interpreter is None:
            return  # a script, or a static executable
        libraries = find_libraries(program, loads, find_shared_library)
        search = read_needs(program).search
        for soname in LOADED_BY_NAME:
            beside = next((d / soname for d in search if (d / soname).is_file()), None)
            path = beside or find_shared_library(soname)
            if path:
                libraries.setdefault(soname, path)
        self._carry_libraries(libraries, entry)
        loader = Path(interpreter)
        if entry.owns(loader):
            loader_target = entry.target_of(loader)
            self._copy(loader, loader_target, entry.origins, _PROGRAM)
        else:
            self._carry_libraries({loader.name: loader}, entry)
            loader_target = self.place / LIBRARIES / loader.name
        self._loaders[os.fspath(target.relative_to(self.place))] = os.fspath(
            loader_target.relative_to(self.place)
        )
        own_directories = [entry.target_of(path).parent for path in libraries.values()
                           if entry.owns(path)]  # fmt: skip
        ordered = [entry.target_of(d) for d in search if entry.owns(d)]
        wanted = [d for d in ordered if d in own_directories]
        self._search_in(target, dict.fromkeys([*wanted, *own_directories]))

    def _carry_libraries(self, libraries: Mapping[str, Path], entry: _StoreEntry) -> None:
        for soname, path in libraries.items():
            if entry.owns(path):
                target = entry.target_of(path)
                if not target.exists():
                    self._copy_elf(path, target, entry)
            elif soname in self._machine:
                self._check_same(soname, path)
            else:
                self._machine[soname] = path
                target = self.place / LIBRARIES / soname
                is_loader = soname.startswith("ld")
                self._copy(path, target, [], _PROGRAM if is_loader else _FILE)
                if not is_loader and read_needs(path).search:
                    self._search_in(target, [])

    def _check_same(self, soname: str, path: Path) -> None:
        """Raises UsageError if another library of that name is carried already."""
        other = self._machine[soname]
        if path.resolve() != other.resolve() and _hash_file(path) != _hash_file(other):
            raise UsageError(
                f"kit: two libraries are called {soname}, {other} and {path}, and a kit carries one"
            )

    def _copy_elf(self, path: Path, target: Path, entry: _StoreEntry) -> None:
        """Carry a library or plugin of an entry; its search path, if it has one, leads to the
        store.
        """
        self._copy(path, target, entry.origins, _PROGRAM if path.name.startswith("ld") else _FILE)
        if path.name.startswith("ld") or not patch_elf.is_elf(target):
            return
        words = patch_elf.read_search_path(target)
        search = read_needs(path).search
        if all(w.startswith(("$ORIGIN", "${ORIGIN}")) for w in words) and all(
            entry.owns(d) for d in search
        ):
            return
        self._search_in(target, [entry.target_of(d) for d in search if entry.owns(d)])

    def _search_in(self, target: Path, directories: Iterable[Path]) -> None:
        """Let a file look for libraries in these directories, then among the machine's."""
        words = [
            f"$ORIGIN/{os.path.relpath(directory, target.parent)}"
            for directory in (*directories, self.place / LIBRARIES)
        ]
        patch_elf.relink(target, None, words)

    # -- files -----------------------------------------------------------------------------------

    def _begin(self, name: str, requested: str, *, base: Path, closed: bool) -> _StoreEntry:
        place = self.place / name_entry(name, requested, self._names)
        self._names.append(place.name)
        return _StoreEntry(place=place, base=base, root=place / "root", closed=closed)

    def _end(
        self,
        entry: _StoreEntry,
        manifest: Mapping[str, object],
        main: Path,
        fetched: private_store.FetchedEntry | None,
    ) -> None:
        """Write an entry's manifest, and note the part."""
        row = {
            "format": private_store.FORMAT,
            "from": fetched.manifest.get("from") if fetched else private_store.OF_MACHINE,
            "bytes": _sum_bytes(entry.place),
            **manifest,
        }
        self._write(entry.place / private_store.MANIFEST, json.dumps(row, indent=1) + "\n")
        self.parts.append(
            CarriedPart(
                kind=str(manifest["kind"]),
                name=str(manifest["name"]),
                version=str(manifest["version"]),
                sha256=_hash_file(main),
                bytes=_sum_bytes(entry.place),
                entry=entry.place.name,
                origins=tuple(entry.origins),
            )
        )

    def _copy(self, path: Path, target: Path, origins: list[Path], mode: int = _FILE) -> None:
        self._make_directory(target.parent)
        with (
            readers.naming(path),
            readers.open_file(path.resolve()) as source,
            target.open("wb") as copy,
        ):
            shutil.copyfileobj(source, copy, _CHUNK)
        target.chmod(mode)
        origins.append(path)

    def _write(self, target: Path, text: str) -> None:
        self._make_directory(target.parent)
        target.write_text(text)
        target.chmod(_FILE)

    def _make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def _note_hash(self, target: Path) -> None:
        self._hashes[os.fspath(target.relative_to(self.place))] = _hash_file(target)


def _list_shared_files(part: ServerPart) -> list[Path]:
    """List what a server reads beside its libraries: messages, character sets, the system tables'
    scripts, and ICU's data.
    """
    build = part.build
    files = [*build.share.glob("english/*"), *build.share.glob("charsets/*")]
    files += [script(build, names) for names in build.entry.scripts]
    for data in build.basedir.glob("lib*/private/icudt*"):
        files += data.rglob("*")
    return sorted(path for path in set(files) if path.is_file())


def _hash_file(path: Path) -> str:
    with readers.naming(path):
        return readers.hash_file(path.resolve())


def _sum_bytes(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
