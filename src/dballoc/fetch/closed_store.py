"""A closed store: that of a kit (``dballoc kit make``). Servers, sysbench and mallocs come from it
alone, whatever the host has, so an experiment means the same there as where the kit was made.

``closed.json`` in the store maps the experiment's own words to what was carried for them. Programs
name their loader by an absolute path, so they are relinked at the first start in a place.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dballoc.fetch import private_store
from dballoc.fetch.private_store import FetchedEntry
from dballoc.ground import readers, user_directories
from dballoc.ground.errors import UsageError
from dballoc.ground.files.output_directory import OutputDirectory
from dballoc.host.elf import patch_elf
from dballoc.host.unprivileged.server_user import server_user

MARKER = "closed.json"
# Increase it when the marker or the layout of a kit's store changes.
FORMAT = 1
# Where the programs' loaders were last said to be: the store's path then.
_LINKED, _LOCK = ".linked", ".lock"
# Seconds that another start in the same place may take to relink a few programs.
_PATIENCE = 120.0
_LARGEST_MARKER = readers.MIB


@dataclass(frozen=True, kw_only=True)
class CarriedMalloc:
    """``entry``: the directory in the store, None for the C library that the server runs on;
    ``version``: as it was read where the kit was made.
    """

    entry: str | None
    version: str


@dataclass(frozen=True, kw_only=True)
class ClosedStore:
    """What the experiment's words stand for in a kit. ``place``: the store; all else is relative to
    it.

    ``servers``: entries by :func:`join_server_words`; ``mallocs``: by reference; ``files``: what
    the experiment names by path; ``sysbench``: its executable; ``loaders``: of each program;
    ``hashes``: SHA-256 of the files that are preloaded.
    """

    place: Path
    servers: Mapping[str, str]
    mallocs: Mapping[str, CarriedMalloc]
    files: Mapping[str, str]
    sysbench: str
    loaders: Mapping[str, str]
    hashes: Mapping[str, str]

    def find_server(self, use: str, basedir: str | None) -> FetchedEntry:
        """Find the server that the experiment calls so. Raises UsageError if the kit has none."""
        words = join_server_words(use, basedir)
        if words not in self.servers:
            raise UsageError(f"server {words!r} {self._describe_lack(self.servers)}")
        return self._read_entry(self.servers[words])

    def find_malloc(self, reference: str) -> tuple[CarriedMalloc, FetchedEntry | None]:
        """Find the malloc of that reference, with its entry in the store. Raises UsageError if the
        kit has none, or if its file is damaged.
        """
        if reference not in self.mallocs:
            raise UsageError(f"allocator {reference!r} {self._describe_lack(self.mallocs)}")
        malloc = self.mallocs[reference]
        if malloc.entry is None:
            return malloc, None
        entry = self._read_entry(malloc.entry)
        for library in entry.libraries:
            self._check_hash(library)
        return malloc, entry

    def find_file(self, path: Path) -> Path:
        """Find the copy of a file that the experiment names by its absolute path. Raises UsageError
        if the kit has none, or if it is damaged.
        """
        if os.fspath(path) not in self.files:
            raise UsageError(f"file {path} {self._describe_lack(self.files)}")
        copy = self.place / self.files[os.fspath(path)]
        self._check_hash(copy)
        return copy

    @property
    def sysbench_program(self) -> Path:
        """The executable of sysbench."""
        return self.place / self.sysbench

    @property
    def sysbench_plugins(self) -> Path:
        """Where sysbench's client library finds its ways to log in."""
        return self.sysbench_program.parent.parent / "lib/plugin"

    def _read_entry(self, name: str) -> FetchedEntry:
        entry = private_store.read_entry(self.place / name)
        if entry is None:
            raise UsageError(f"{self.place / name}: not in this kit any more; unpack the kit again")
        return entry

    def _check_hash(self, path: Path) -> None:
        with readers.naming(path):
            digest = readers.hash_file(path)
        if digest != self.hashes.get(os.fspath(path.relative_to(self.place))):
            raise UsageError(f"{path}: not the file that the kit was made with; unpack it again")

    def _describe_lack(self, names: Mapping[str, object]) -> str:
        carried = ", ".join(names) or "none"
        return f"is not in this kit, which has {carried}; make another with dballoc kit make"


def join_server_words(use: str, basedir: str | None) -> str:
    """Return how a server is named in the marker: as the experiment names it. Pure."""
    return use if basedir is None else f"{use} in {basedir}"


def open_closed_store() -> ClosedStore | None:
    """Return the store if it is a kit's, with its programs ready to run here; None for any other.
    Raises UsageError if it cannot be used.
    """
    return _open(user_directories.locate_store())


@cache
def _open(place: Path) -> ClosedStore | None:
    if not (place / MARKER).is_file():
        return None
    place = place.resolve()
    _check_place(place)
    store = parse_marker(place, readers.text(place / MARKER, _LARGEST_MARKER))
    _link_programs(store)
    return store


def parse_marker(place: Path, text: str) -> ClosedStore:
    """Parse the marker of a kit's store. Raises UsageError if it is damaged, or of another format.
    Pure.
    """
    try:
        marker = json.loads(text)
        if marker["format"] != FORMAT:
            raise ValueError("another format")
        return ClosedStore(
            place=place,
            servers=_read_paths(marker["servers"]),
            mallocs={name: _read_malloc(row) for name, row in marker["mallocs"].items()},
            files=_read_paths(marker["files"]),
            sysbench=_check_path(marker["sysbench"]),
            loaders={
                _check_path(program): p for program, p in _read_paths(marker["loaders"]).items()
            },
            hashes={path: str(digest) for path, digest in marker["hashes"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            f"{place / MARKER}: damaged, or of another version of dballoc; unpack the kit again"
        ) from None


def _read_malloc(row: Mapping[str, Any]) -> CarriedMalloc:
    entry = row["entry"]
    return CarriedMalloc(
        entry=None if entry is None else _check_path(entry), version=str(row["version"])
    )


def _read_paths(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: _check_path(path) for name, path in row.items()}


def _check_path(path: Any) -> str:
    """Return a path of the store. Raises ValueError for what is none, or leads out."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError("not a path")
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("leads out of the store")
    return path


def _check_place(place: Path) -> None:
    """Raises UsageError unless the kit is our own, and where servers can read it and preload from
    it.
    """
    if {" ", ":"} & set(os.fspath(place)):
        raise UsageError(
            f"{place}: LD_PRELOAD takes no path with a colon or a space; move the kit to another"
        )
    status = place.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(
            f"{place}: others can change this kit, or it belongs to another user; unpack it as the "
            "user who runs it, into a directory of that user's"
        )
    user = server_user()
    if blocked := user.may_not_pass(place):
        raise UsageError(
            f"{place}: servers run as {user.name}, which may not enter {blocked}; move the kit to "
            "a directory that every user may enter, like /var/tmp"
        )


def _link_programs(store: ClosedStore) -> None:
    """Let every program name its loader where the kit lies now. What was begun and killed is gone
    on with; of two starts at once one waits.
    """
    address = os.fspath(store.place)
    with OutputDirectory.open(store.place, "DBALLOC_STORE") as directory, _lock(directory):
        if directory.has_own_file(_LINKED) and readers.text(store.place / _LINKED) == address:
            return
        for program, loader in store.loaders.items():
            _link_program(store.place / program, store.place / loader)
        directory.write(_LINKED, address)


def _link_program(program: Path, loader: Path) -> None:
    """Change a program's loader, in a copy that then takes its place; what runs already keeps its
    file.
    """
    if patch_elf.read_interpreter(program) == os.fspath(loader):
        return
    status = program.stat()
    partial = program.with_name(f"{program.name}.partial")
    shutil.copyfile(program, partial)
    patch_elf.relink(partial, loader, [])
    partial.chmod(status.st_mode & 0o7777)
    # The time is a part of the key of what is prepared with a server.
    os.utime(partial, ns=(status.st_atime_ns, status.st_mtime_ns))
    partial.rename(program)


@contextlib.contextmanager
def _lock(directory: OutputDirectory) -> Iterator[None]:
    """Hold the store's lock. Raises UsageError if another start does not give it up."""
    lock = directory.open_lock(_LOCK)
    deadline = time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"{directory.path}: another run of this kit keeps it locked; end that one"
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(lock)


def format_marker(store: ClosedStore) -> str:
    """Format the marker of a kit's store. Pure."""
    marker = {
        "format": FORMAT,
        "servers": dict(store.servers),
        "mallocs": {name: vars(row) for name, row in store.mallocs.items()},
        "files": dict(store.files),
        "sysbench": store.sysbench,
        "loaders": dict(store.loaders),
        "hashes": dict(store.hashes),
    }
    return json.dumps(marker, indent=1, sort_keys=True) + "\n"
