"""Find a server's build, and say what it is."""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dballoc.catalogue import look_up, servers
from dballoc.errors import UsageError

_SYSTEM_DIRECTORIES = ("/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin")
_BASEDIR_DIRECTORIES = ("bin", "sbin", "libexec", "usr/sbin", "usr/bin")
_SHARE_DIRECTORIES = ("share/mysql", "share/mariadb", "share", "usr/share/mysql", "usr/share/mariadb")


@dataclass(frozen=True)
class Build:
    """An executable server: family (a catalogue name), version, and where its parts lie."""

    family: str
    version: str
    executable: Path
    basedir: Path
    share: Path
    plugins: Path | None

    @property
    def entry(self) -> dict[str, Any]:
        """Its family's row of the catalogue."""
        return servers()[self.family]

    @property
    def title(self) -> str:
        """``MariaDB 10.11.19``."""
        return f"{self.entry['title'].split()[0]} {self.version.split('-')[0]}"

    @property
    def key(self) -> str:
        """Changes when the executable does."""
        status = self.executable.stat()
        return f"{self.executable}:{self.version}:{status.st_size}:{status.st_mtime_ns}"


@cache
def find(use: str, basedir: str | None) -> Build:
    """The build to run: of a basedir, or of this machine by its family's name. UsageError if there is none."""
    entry = look_up(servers(), use, "server")
    if basedir is not None:
        root = Path(basedir).expanduser().resolve()
        candidates = [root / d / b for b in _any_binary(entry) for d in _BASEDIR_DIRECTORIES]
        where = f"no {' or '.join(_any_binary(entry))} in {root}/{{{','.join(_BASEDIR_DIRECTORIES)}}}"
        remedy = "give the directory that the server was unpacked or installed into"
    else:
        directories = [*os.environ.get("PATH", "").split(":"), *_SYSTEM_DIRECTORIES]
        candidates = [Path(d) / b for b in entry["binaries"] for d in directories if d]
        where = f"no {entry['title']} on this machine"
        remedy = f"install it: apt-get install {entry['packages'][0]}, or give server.basedir"
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and candidate.is_file():
            build = _identify(candidate.resolve(), Path(basedir).expanduser().resolve() if basedir else None)
            if build and (basedir or build.family == use):
                return build
    raise UsageError(f"server {use!r}: {where}; {remedy}")


def _any_binary(entry: dict[str, Any]) -> list[str]:
    """In a basedir the family need not be told."""
    return list(dict.fromkeys([*entry["binaries"], *(b for e in servers().values() for b in e["binaries"])]))


def _identify(executable: Path, basedir: Path | None) -> Build | None:
    try:
        done = subprocess.run([executable, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"Ver (\S+) ", done.stdout)
    if done.returncode != 0 or not found:
        return None
    family = next((name for name, e in servers().items() if e["mark"] in done.stdout), None)
    if family is None:
        return None
    root = basedir or executable.parent.parent
    share = next((root / d for d in _SHARE_DIRECTORIES if (root / d / "english/errmsg.sys").exists()), root / "share")
    places = ("lib/plugin", "lib/mysql/plugin", "lib/*/*/plugin", "usr/lib/*/plugin")
    plugins = next((p for pattern in places for p in root.glob(pattern) if p.is_dir()), None)
    return Build(family, found[1], executable, root, share, plugins)


def script(build: Build, names: str) -> Path:
    """A bootstrap script by its names (``old|new``). UsageError if the build lacks it."""
    for name in names.split("|"):
        for directory in (build.share, *(build.basedir / d for d in _SHARE_DIRECTORIES)):
            if (directory / name).exists():
                return directory / name
    raise UsageError(f"{build.executable}: its system tables' script {names.replace('|', ' or ')} is not in {build.share}")
