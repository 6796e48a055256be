"""Read a running server's option files as that server reads them, without running it.

The executable and the files are another's, so they are opened inside its root
(:mod:`dballoc.host.process.open_in_process_root`), and the executable is searched for its version
in a sandbox. Which files and groups are read, and in which order: MySQL's manual, "Using Option
Files"; MariaDB's, "Configuring MariaDB with Option Files".
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dballoc.host.elf import loader
from dballoc.host.elf.elf_answers import ask_elf_parser
from dballoc.host.process import open_in_process_root
from dballoc.host.process.handle import Process
from dballoc.host.unprivileged.sandbox import SandboxError
from dballoc.servers.private.reserved_options import EMPTY
from dballoc.servers.running.credentials import parse

# These arguments decide which option files a server reads; they come before all others.
SWITCHES = (
    "--defaults-file=",
    "--defaults-extra-file=",
    "--defaults-group-suffix=",
    "--no-defaults",
    "--login-path=",
)

_FILE = "my.cnf"
_GLOBAL = ("/etc", "/etc/mysql")
_HOMES = ("MARIADB_HOME", "MYSQL_HOME")
_SUFFIXES = ("MARIADB_GROUP_SUFFIX", "MYSQL_GROUP_SUFFIX")
# The executable has both: the group of its own version, and the directories where it was built to
# look.
_VERSION_GROUP = r"\x00(mysqld-[0-9]{1,2}\.[0-9]{1,2})(?=\x00)"
_BUILT_FOR = r"\x00(/[A-Za-z0-9_./+-]{0,60}/etc)/?(?=\x00)"

# Bytes: of one file, and of all together, a file that is included again counted again.
_LARGEST, _MOST_BYTES = 1 << 20, 4 << 20
_MOST_FILES, _MOST_DEPTH, _MOST_OPTIONS = 200, 10, 10_000
_MOST_NAMES = 10_000


@dataclass(frozen=True)
class OptionFiles:
    """(name, value) of each option, in the server's order; ``notes``: a line for what could not be
    read.
    """

    options: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class OptionFileRules:
    """What an executable shows about how it reads option files. ``version``: like ``10.11``, empty
    if unknown.
    """

    mariadb: bool
    version: str
    directories: tuple[str, ...]


def read_option_files(
    process: Process, executable: str, switches: Sequence[str], environ: Mapping[str, str]
) -> OptionFiles:
    """Read the option files of a server. ``switches``: those of its first
    arguments that name the files; ``environ``: its environment.
    """
    if "--no-defaults" in switches:
        return OptionFiles()
    return _OptionFileReader(process.root).read(
        _look_at_build(process, executable), switches, environ
    )


def list_groups(build: OptionFileRules, suffix: str) -> list[str]:
    """List the groups that a server reads, in any order: of two lines the later one counts,
    whatever their groups. Pure.
    """
    groups = ["mysqld", "server", *([f"mysqld-{build.version}"] if build.version else [])]
    if build.mariadb:
        groups += ["mariadb", "mariadbd", "client-server", "galera"]
        groups += [f"{name}-{build.version}" for name in ("mariadb", "mariadbd") if build.version]
    return [*groups, *(f"{group}{suffix}" for group in groups if suffix)]


def list_files(
    build: OptionFileRules, switches: Sequence[str], environ: Mapping[str, str]
) -> list[tuple[str, bool]]:
    """List the files that a server reads, in its order, each with whether it must exist. Pure."""
    if named := _value_of(switches, "--defaults-file="):
        return [(named, True)]
    directories = list(dict.fromkeys([*_GLOBAL, *build.directories]))
    homes = [environ[name] for name in _HOMES if environ.get(name)][: 1 if build.mariadb else None]
    files = [(f"{directory}/{_FILE}", False) for directory in [*directories, *homes]]
    if extra := _value_of(switches, "--defaults-extra-file="):
        files.append((extra, True))
    if home := environ.get("HOME"):
        files.append((f"{home}/.{_FILE}", False))
    return files


class _TooMuch(Exception):
    """The bound on all files together is reached."""


class _OptionFileReader:
    """One reading of all files, with common limits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.options: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.files = 0
        self.bytes = 0

    def read(
        self, build: OptionFileRules, switches: Sequence[str], environ: Mapping[str, str]
    ) -> OptionFiles:
        suffix = _value_of(switches, "--defaults-group-suffix=") or next(
            (environ[name] for name in _SUFFIXES if environ.get(name)), ""
        )
        groups = set(list_groups(build, suffix))
        if not build.version:
            self.notes.append(
                "its executable does not show its version, so groups like [mysqld-8.0] are left out"
            )
        for path, required in list_files(build, switches, environ):
            try:
                self._read_file(path, required, groups, 0)
            except _TooMuch:
                self._leave_out(
                    path,
                    f"more than {_MOST_FILES} files and directories, {_MOST_BYTES >> 20} MiB, or "
                    f"{_MOST_OPTIONS} options; not all of it",
                )
                break
        return OptionFiles(self.options, self.notes)

    def _read_file(self, path: str, required: bool, groups: set[str], depth: int) -> None:
        if not path.startswith("/"):
            self._leave_out(path, "a relative path, but the server's start directory is unknown")
            return
        self._count()
        if depth > _MOST_DEPTH:
            self._leave_out(path, f"more than {_MOST_DEPTH} files within each other")
            return
        try:
            if open_in_process_root.measure_file(self.root, path).st_mode & stat.S_IWOTH:
                self._leave_out(path, "world-writable, so servers ignore it")
                return
            text = open_in_process_root.read_file(self.root, path, _LARGEST).decode(
                "utf-8", "replace"
            )
        except FileNotFoundError as error:
            if required:
                self._leave_out(path, error.strerror)
            return
        except OSError as error:
            self._leave_out(path, error.strerror)
            return
        self.bytes += len(text)
        if self.bytes > _MOST_BYTES:
            raise _TooMuch
        for group, name, value in parse(text):
            if name == "!include":
                self._read_file(_beside(path, value or ""), True, groups, depth + 1)
            elif name == "!includedir":
                for included in self._list_included(_beside(path, value or "")):
                    self._read_file(included, True, groups, depth + 1)
            elif group in groups and name:
                if len(self.options) >= _MOST_OPTIONS:
                    raise _TooMuch
                # A switch has no value; an empty one is written as in a file.
                self.options.append((name, EMPTY[0] if value == "" else value or ""))

    def _count(self) -> None:
        """Count one more file or directory that is looked for, whether it is there or not."""
        self.files += 1
        if self.files > _MOST_FILES:
            raise _TooMuch

    def _list_included(self, directory: str) -> Iterator[str]:
        self._count()
        try:
            names = open_in_process_root.list_directory(self.root, directory, _MOST_NAMES)
        except OSError as error:
            self._leave_out(directory, error.strerror)
            return
        yield from (f"{directory}/{name}" for name in names if name.endswith(".cnf"))

    def _leave_out(self, path: str, reason: str | None) -> None:
        self.notes.append(f"{path} was not read: {reason}")


def _beside(path: str, value: str) -> str:
    return os.path.join(os.fspath(PurePosixPath(path).parent), value)


def _value_of(switches: Sequence[str], start: str) -> str:
    return next((switch.removeprefix(start) for switch in switches if switch.startswith(start)), "")


def _look_at_build(process: Process, executable: str) -> OptionFileRules:
    named_mariadb = PurePosixPath(executable).name.startswith("mariadb")
    try:
        fd = _open_executable(process, executable)
    except OSError:
        return OptionFileRules(mariadb=named_mariadb, version="", directories=())
    try:
        groups = ask_elf_parser("list_texts", fd, _VERSION_GROUP, 4)
        directories = ask_elf_parser("list_texts", fd, _BUILT_FOR, 8)
        mariadb = named_mariadb or bool(
            ask_elf_parser("find_text", fd, r"\x00(mariadbd?-[0-9]{1,2}\.[0-9]{1,2})\x00")
        )
    except SandboxError:
        groups, directories, mariadb = [], [], named_mariadb
    finally:
        os.close(fd)
    version = str(groups[0]).removeprefix("mysqld-") if groups else ""
    return OptionFileRules(
        mariadb=mariadb, version=version, directories=tuple(map(str, directories))
    )


def _open_executable(process: Process, executable: str) -> int:
    """Return the server's own file, even if the process executes the loader."""
    if loader.is_loader(process.read_link("exe")):
        return open_in_process_root.open_file_of(process, executable)
    return open_in_process_root.open_link(f"{process.home}/exe")
