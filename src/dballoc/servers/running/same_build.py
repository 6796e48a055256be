"""Find the host's build that a running server was started from, and check that it is the same
before it is run.

The running server may be a stranger's, so dballoc does not run a file just because that server
executes it. It uses a build only if it is in this host's own mounts, belongs to root (or to us)
from the first directory down, and has the build-id of the file that the process executes.
"""

import os
import stat
from pathlib import Path

from dballoc.catalogue import servers
from dballoc.fetch import private_store
from dballoc.ground.errors import UsageError
from dballoc.host.process import open_in_process_root
from dballoc.host.unprivileged.sandbox import ELF_PARSER, SandboxError
from dballoc.servers import build as find_build
from dballoc.servers.build import Build
from dballoc.servers.running.running_server import RunningServer, is_same_file

_REMEDY = "give the build to run with --basedir"


def find_same_build(server: RunningServer) -> tuple[str, str | None, Build]:
    """Find ``server.use``, ``server.basedir`` (None for the machine's own) and the build of a
    running server. Raises UsageError if it is not on this machine, or cannot be shown to be the
    same.
    """
    where = f"--like {server.process.pid}"
    if server.loader:
        raise UsageError(
            f"{where}: it was started through the loader {server.loader[0]}; only a server that "
            "was started directly can be repeated"
        )
    if server.elsewhere:
        raise UsageError(
            f"{where}: it runs in a container or chroot, and its {server.executable} is not this "
            f"machine's; {_REMEDY}"
        )
    path = Path(server.executable)
    if not path.exists():
        raise UsageError(f"{where}: its {path} no longer exists; {_REMEDY}")
    if unsafe := find_unsafe_part(path):
        raise UsageError(
            f"{where}: users other than root can change {unsafe}, so {path} is not run; if you "
            f"trust it, {_REMEDY}"
        )
    if not (identity := _read_build_id(f"{server.process.home}/exe")):
        raise UsageError(
            f"{where}: its executable has no build-id, so dballoc cannot tell whether a build is "
            f"the same; {_REMEDY}"
        )
    if _read_build_id(os.fspath(path)) != identity:
        raise UsageError(
            f"{where}: {path} is not the build that runs: the file was replaced after the start; "
            f"{_REMEDY}"
        )
    if kept := private_store.find_owner(path):
        return kept.reference, None, find_build.find(kept.reference, None)
    for family in servers():
        try:
            build = find_build.find(family, None)
        except UsageError:
            continue
        if is_same_file(build.executable, path):
            return build.family, None, build
    basedir = os.fspath(path.resolve().parent.parent)
    for family in servers():
        try:
            build = find_build.find(family, basedir)
        except UsageError:
            continue
        if is_same_file(build.executable, path):
            return build.family, basedir, find_build.find(build.family, basedir)
    raise UsageError(f"{where}: {path} is not a server that dballoc can start; {_REMEDY}")


def find_unsafe_part(path: Path) -> Path | None:
    """Return the first part of a file's path that users other than root and us could change; None
    if there is none. Raises OSError as usual.
    """
    path = path.resolve(strict=True)
    for part in [*reversed(path.parents), path]:
        status = part.lstat()
        # In a sticky directory nobody replaces another user's file, and the file itself is checked
        # next.
        writable = (
            status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        )
        if status.st_uid not in (0, os.geteuid()) or writable:
            return part
    return None


def _read_build_id(link: str) -> str:
    """Return the build-id of a file; empty if it has none or cannot be read."""
    try:
        fd = open_in_process_root.open_link(link)
    except OSError:
        return ""
    try:
        return str(ELF_PARSER.call("read_build_id", [fd]))
    except SandboxError:
        return ""
    finally:
        os.close(fd)
