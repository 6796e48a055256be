"""Copy a server's executable so that it runs on another C library, or without a malloc that it is
linked against.

The alternative is the loader's own command line (``ld.so --library-path … mysqld``). With a copy,
/proc/PID/exe, maps, symbols and the place of the heap are those of any server, so code that reads a
process from outside need not handle a special case.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dballoc.allocators import proof_of_use
from dballoc.ground import readers
from dballoc.ground.errors import Failure, UsageError
from dballoc.host import directories
from dballoc.host.elf import patch_elf
from dballoc.host.unprivileged.server_user import server_user
from dballoc.servers.build import Build

_LARGEST_LIBRARY = 64 * readers.MIB
_GLIBC = re.compile(rb"GNU C Library .*? version ([\d.]+)")
# Increase it when copies are made in another way.
_FORMAT = 1

_RELINKED = "relinked"


@dataclass(frozen=True)
class Linked:
    """The library from which an executable gets its malloc without any preload; the real file."""

    library: Path
    soname: str

    @property
    def glibc(self) -> bool:
        """Whether that library is the C library."""
        return self.soname.startswith("libc.so.")


def linked(build: Build) -> Linked | None:
    """Find where the build's malloc comes from; None if it is built into the executable. Raises
    NotProved if the executable does not run.
    """
    bindings = proof_of_use.read_bindings(
        [os.fspath(build.executable)], {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
    )
    if (provider := bindings.provider.get("malloc")) is None or os.path.realpath(
        provider
    ) == os.fspath(build.executable):
        return None
    return Linked(Path(os.path.realpath(provider)), Path(provider).name)


def relinked(build: Build, loader: Path | None = None, without: Sequence[str] = ()) -> Build:
    """Return the build with such a copy as its executable. The copy is made once, in the cache.
    ``loader``: of the C library to run on; ``without``: sonames of libraries that the copy must no
    longer need. Raises UsageError if the executable cannot be changed in this way.
    """
    if loader is None and not without:
        return build
    parts = [_FORMAT, build.key, os.fspath(loader) if loader else None, sorted(without)]
    if loader:
        status = loader.stat()
        parts += [status.st_size, status.st_mtime_ns]
    user = server_user()
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    place = directories.make_server_directory(_RELINKED, user) / name
    place.mkdir(mode=0o700, exist_ok=True)
    user.show(place)
    copy = place / build.executable.name
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not copy.exists():
            _make(build, copy, loader, without)
        user.let_execute(copy)
    finally:
        os.close(lock)
    return replace(build, executable=copy)


def _make(build: Build, copy: Path, loader: Path | None, without: Sequence[str]) -> None:
    partial = copy.with_name("partial")
    try:
        if lacking := [
            soname
            for soname in without
            if soname not in patch_elf.read_needed_libraries(build.executable)
        ]:
            raise UsageError(
                f"{build.executable}: another library that it needs loads {lacking[0]}, so its "
                "malloc cannot be replaced"
            )
        shutil.copy2(build.executable, partial)
        before = patch_elf.resolve_search_path(
            patch_elf.read_search_path(build.executable), build.executable.parent
        )
        patch_elf.relink(partial, loader, [*([loader.parent] if loader else []), *before], without)
    except Failure as error:
        partial.unlink(missing_ok=True)
        raise UsageError(str(error)) from None
    partial.chmod(0o700)
    partial.rename(copy)


def glibc_version(libc: Path) -> str:
    """Return the version that a C library reports; ``unknown`` if none."""
    match = _GLIBC.search(readers.content(libc, _LARGEST_LIBRARY))
    return match[1].decode().rstrip(".") if match else "unknown"
