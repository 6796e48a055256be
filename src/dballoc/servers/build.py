"""Find a server's build, and read its version."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dballoc.fetch import closed_store, fetch_sources, name_and_version, private_store
from dballoc.fetch.private_store import FetchedEntry
from dballoc.ground.errors import UsageError
from dballoc.host.unprivileged.run_unprivileged import Unanswered, run_unprivileged
from dballoc.host.unprivileged.server_user import server_user
from dballoc.servers.families import Family, describe_family, list_families

_SYSTEM_DIRECTORIES = (
    "/usr/sbin",
    "/usr/libexec",
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/local/mysql/bin",
)
_BASEDIR_DIRECTORIES = ("bin", "sbin", "libexec", "usr/sbin", "usr/bin")
_SHARE_DIRECTORIES = (
    "share/mysql",
    "share/mariadb",
    "share",
    "usr/share/mysql",
    "usr/share/mariadb",
)


@dataclass(frozen=True, kw_only=True)
class Build:
    """A server that can be executed: its family (a catalogue name), its version, and where its
    parts are.
    """

    family: str
    version: str
    executable: Path
    basedir: Path
    share: Path
    plugins: Path | None

    @property
    def entry(self) -> Family:
        """The catalogue's entry of its family, for releases as old as this one."""
        return describe_family(self.family, self.version)

    @property
    def title(self) -> str:
        """``MariaDB 10.11.19``."""
        return f"{self.entry.called} {self.version.split('-')[0]}"

    @property
    def engines(self) -> list[str]:
        """The storage engines that it has, built in or as a plugin that is installed."""
        return [
            name
            for name, options in self.entry.engines.items()
            if self._has(options.get("plugin-load-add"))
        ]

    def _has(self, plugin: str | None) -> bool:
        if plugin is None:
            return True
        return (
            self.plugins is not None
            and (self.plugins / f"{plugin.removesuffix('.so')}.so").exists()
        )

    @property
    def key(self) -> str:
        """A key that changes when the executable changes."""
        status = self.executable.stat()
        return f"{self.executable}:{self.version}:{status.st_size}:{status.st_mtime_ns}"


@cache
def find(use: str, basedir: str | None) -> Build:
    """Find the build to run: in a basedir, or by its family's name (this machine's, else a fetched
    one), or by ``NAME@VERSION`` (a fetched one, else this machine's if it has that version); in a
    kit the one that was carried for these words. Raises UsageError if there is none.
    """
    name, version = name_and_version.split_reference(use)
    entry = describe_family(name)
    if closed := closed_store.open_closed_store():
        return _of_store(use, closed.find_server(use, basedir), entry)
    if basedir is not None:
        if version is not None:
            raise UsageError(
                f"server {use!r} and basedir {basedir}: give either a version or a directory, not "
                "both"
            )
        root = Path(basedir).expanduser().resolve()
        if (build := _in(root, _any_binary(entry))) is None:
            where = (
                f"no {' or '.join(_any_binary(entry))} in "
                f"{root}/{{{','.join(_BASEDIR_DIRECTORIES)}}}"
            )
            raise UsageError(
                f"server {name!r}: {where}; give the directory that the server was unpacked or "
                "installed into"
            )
        return build
    if version is None and (build := _of_machine(entry)):
        return build
    if kept := private_store.find_fetched(name, version):
        return _of_store(use, kept, entry)
    if version is None:
        raise UsageError(
            f"server {use!r}: no {entry.title} on this machine; install it: apt-get install "
            f"{entry.packages[0]}, or "
            f"bring it into a private store: dballoc fetch {name}, or give server.basedir"
        )
    if (build := _of_machine(entry)) and name_and_version.is_version_of(
        version, build.version.partition("-")[0]
    ):
        return build
    raise fetch_sources.NotFetched(f"server {use!r}", use)


def _of_store(use: str, kept: FetchedEntry, entry: Family) -> Build:
    if (build := _in(kept.root, _any_binary(entry))) is None:
        raise UsageError(
            f"server {use!r}: the fetched server does not run; remove {kept.place}, and fetch "
            "it again"
        )
    return build


def _of_machine(entry: Family) -> Build | None:
    directories = [*os.environ.get("PATH", "").split(":"), *_SYSTEM_DIRECTORIES]
    places = (Path(d) / b for b in entry.binaries for d in directories if d)
    return _first(places, None, entry.name)


def _in(root: Path, binaries: list[str]) -> Build | None:
    return _first((root / d / b for b in binaries for d in _BASEDIR_DIRECTORIES), root, None)


def _first(candidates: Iterable[Path], root: Path | None, family: str | None) -> Build | None:
    user, closed = server_user(), None
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and candidate.is_file():
            if blocked := user.blocked_at(candidate):
                closed = closed or (
                    f"{candidate}: the server runs as {user.name}, which may not read {blocked}; "
                    "make it readable, or move the server"
                )
                continue
            build = _identify(candidate.resolve(), root)
            if build and (family is None or family in build.entry.lineage):
                return build
    if closed:
        raise UsageError(closed)
    return None


def _any_binary(entry: Family) -> list[str]:
    """In a basedir the family need not be given."""
    return list(dict.fromkeys(b for e in (entry, *list_families()) for b in e.binaries))


def _identify(executable: Path, basedir: Path | None) -> Build | None:
    """Return what an executable prints as its version; it is run as the server user."""
    try:
        answer = run_unprivileged([executable, "--version"])
    except Unanswered:
        return None
    match = re.search(r"Ver (\S+) ", answer.stdout)
    if answer.status != 0 or not match:
        return None
    family = next((e.name for e in list_families() if e.mark in answer.stdout), None)
    if family is None:
        return None
    root = basedir or executable.parent.parent
    share = next(
        (root / d for d in _SHARE_DIRECTORIES if (root / d / "english/errmsg.sys").exists()),
        root / "share",
    )
    places = (
        "lib/plugin",
        "lib/mysql/plugin",
        "lib/*/*/plugin",
        "usr/lib/*/plugin",
        "lib64/plugin",
        "lib64/*/plugin",
    )
    plugins = next((p for pattern in places for p in root.glob(pattern) if p.is_dir()), None)
    return Build(
        family=family,
        version=match[1],
        executable=executable,
        basedir=root,
        share=share,
        plugins=plugins,
    )


def script(build: Build, names: str) -> Path:
    """Return a bootstrap script, given its names (``old|new``). Raises UsageError if the build
    lacks it.
    """
    for name in names.split("|"):
        for directory in (build.share, *(build.basedir / d for d in _SHARE_DIRECTORIES)):
            if (directory / name).exists():
                return directory / name
    raise UsageError(
        f"{build.executable}: its system tables' script {names.replace('|', ' or ')} is not in "
        f"{build.share}"
    )
