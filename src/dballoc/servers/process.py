"""A running server, read from outside: its executable, its arguments, what its option files gave, its own word.

Only reads: /proc, the server's own ``--print-defaults`` run as the server's user, and SELECTs over its socket.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pymysql
from pymysql.cursors import Cursor

from dballoc.catalogue import servers
from dballoc.errors import UsageError
from dballoc.fetch import stock
from dballoc.host import inside, loader
from dballoc.servers import build as find_build
from dballoc.servers import defaults
from dballoc.servers.build import Build
from dballoc.servers.credentials import Credentials
from dballoc.servers.foreign import parse

# They decide which option files a server reads; they stand before all other arguments.
_SWITCHES = ("--defaults-file=", "--defaults-extra-file=", "--defaults-group-suffix=", "--no-defaults", "--login-path=")
_STEERING = ("HOME", "MYSQL_HOME", "MYSQL_GROUP_SUFFIX")
_SOCKETS = ("/run/mysqld/mysqld.sock", "/var/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock")
_REPLACED = " (deleted)"

_MARIADB = """SELECT VARIABLE_NAME, GLOBAL_VALUE FROM information_schema.SYSTEM_VARIABLES
 WHERE GLOBAL_VALUE_ORIGIN IN ('CONFIG', 'COMMAND-LINE', 'SQL') AND GLOBAL_VALUE IS NOT NULL"""
_MYSQL = """SELECT VARIABLE_NAME, v.VARIABLE_VALUE FROM performance_schema.variables_info
 JOIN performance_schema.global_variables v USING (VARIABLE_NAME)
 WHERE VARIABLE_SOURCE <> 'COMPILED' AND (VARIABLE_SOURCE <> 'DYNAMIC' OR SET_USER IS NOT NULL)"""


class NoWord(Exception):
    """The server cannot be asked; the reason in a few words."""


@dataclass(frozen=True)
class Process:
    """A running server. ``executable`` as its own mount namespace has it; ``elsewhere``: that one is not ours; ``loader``: the
    words before it, of a server that was started through the loader.
    """

    pid: int
    executable: str
    replaced: bool
    arguments: tuple[str, ...]
    environ: dict[str, str]
    elsewhere: bool
    uid: int
    gid: int
    loader: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """For messages."""
        return f"process {self.pid} ({self.executable})"


def look(pid: int, asked: str = "--like") -> Process:
    """The server of that PID, which was ``asked`` for so. UsageError if there is none, it is no server, or not ours to read."""
    home = Path(f"/proc/{pid}")
    try:
        name = (home / "comm").read_text().strip()
        owner = home.stat()
    except OSError:
        raise UsageError(f"{asked} {pid}: there is no such process") from None
    try:
        link = os.readlink(home / "exe")
        arguments = tuple(os.fsdecode(a) for a in (home / "cmdline").read_bytes().split(b"\0")[:-1])
        environ = dict(os.fsdecode(e).partition("=")[::2] for e in (home / "environ").read_bytes().split(b"\0") if b"=" in e)
        elsewhere = not _same_file(home / "exe", Path(link.removesuffix(_REPLACED))) and _other_root(pid)
    except PermissionError:
        who = "as root" if owner.st_uid == os.geteuid() else f"as user {owner.st_uid}, whom it belongs to, or as root"
        raise UsageError(f"{asked} {pid}: {name} is not ours to read; run {who}") from None
    except OSError as error:
        raise UsageError(f"{asked} {pid}: {name}: {error.strerror}") from None
    executable, before = link.removesuffix(_REPLACED), 0
    if loader.is_loader(executable) and (before := loader.program_at(arguments) or 0):
        executable = link = loader.program(pid)
    if not any(Path(executable).name.startswith(binary) for entry in servers().values() for binary in entry["binaries"]):
        raise UsageError(f"{asked} {pid}: {name} ({executable}) is not a MySQL-family server")
    return Process(
        pid, executable, link != executable, arguments[before + 1 :], environ, elsewhere, owner.st_uid, owner.st_gid,
        arguments[:before],
    )  # fmt: skip


def build(process: Process) -> tuple[str, str | None, Build]:
    """``server.use``, ``server.basedir`` (None for the machine's own) and the build. UsageError if it is not here."""
    path, really = Path(process.executable), Path(f"/proc/{process.pid}/exe")
    where = f"--like {process.pid}"
    if process.loader:
        raise UsageError(
            f"{where}: it runs through the loader {process.loader[0]}; only a server started by itself can be repeated"
        )
    for family in servers():
        try:
            found = find_build.find(family, None)
        except UsageError:
            continue
        if _same_file(found.executable, really) or (
            process.replaced and not process.elsewhere and _same_file(found.executable, path)
        ):
            return found.family, None, found
    if not process.elsewhere and (kept := stock.owner(path)):
        return kept.reference, None, find_build.find(kept.reference, None)
    if process.elsewhere:
        raise UsageError(
            f"{where}: it runs in a container or chroot, and its {path} is not this machine's; give a build of the same "
            "version with --basedir"
        )
    if not path.exists():
        raise UsageError(f"{where}: its {path} is not there any more; give the build to run with --basedir")
    basedir = os.fspath(path.resolve().parent.parent)
    for family in servers():
        try:
            found = find_build.find(family, basedir)
        except UsageError:
            continue
        if _same_file(found.executable, path):
            return found.family, basedir, find_build.find(found.family, basedir)
    raise UsageError(f"{where}: {path} is no server that dballoc can start; give the build to run with --basedir")


def given(process: Process) -> list[tuple[str, str]]:
    """Every option that it was started with: its option files', then its arguments'. ``NoWord`` if those cannot be had.

    The server's own executable reads the files, as the server's user, where the server sees them.
    """
    switches = []
    for argument in process.arguments:
        if not argument.startswith(_SWITCHES):
            break
        switches.append(argument)
    return [*_of_files(process, switches), *arguments(process)]


def arguments(process: Process) -> list[tuple[str, str]]:
    """The options of its command line alone."""
    return parse(a for a in process.arguments if not a.startswith(_SWITCHES))


def _of_files(process: Process, switches: list[str]) -> list[tuple[str, str]]:
    if "--no-defaults" in switches:
        return []
    how: dict[str, object] = {"cwd": "/"}
    command = [*process.loader, process.executable]
    if _other_root(process.pid):
        if os.geteuid() != 0:
            raise NoWord("its option files lie in another mount namespace, which only root may enter")
        # A chroot's path is as we see it, a container's as it does.
        command = [
            "nsenter", f"--mount=/proc/{process.pid}/ns/mnt", f"--root=/proc/{process.pid}/root", f"--setuid={process.uid}",
            f"--setgid={process.gid}", "--", *process.loader, inside.own(process.pid, process.executable),
        ]  # fmt: skip
    elif process.replaced and not Path(process.executable).exists():
        raise NoWord("its executable is gone, which alone can tell what its option files gave")
    elif os.geteuid() == 0:
        how |= {"user": process.uid, "group": process.gid, "extra_groups": []}
    environ = {k: process.environ[k] for k in _STEERING if k in process.environ}
    try:
        return parse(defaults.printed(command, switches, environ, **how))
    except defaults.Unreadable as error:
        raise NoWord(f"its option files cannot be read: {error}") from None


def own_word(process: Process, options: list[tuple[str, str]], who: Credentials) -> dict[str, str]:
    """The variables that somebody has set, by the running server's own word. NoWord if it does not talk to us."""
    with talking(process, options, who) as cursor:
        cursor.execute("SELECT VERSION()")
        version = str(cursor.fetchall()[0][0])
        cursor.execute(_MARIADB if "mariadb" in version.lower() else _MYSQL)
        return {str(name).lower(): str(value) for name, value in cursor.fetchall()}


@contextlib.contextmanager
def talking(process: Process, options: list[tuple[str, str]], who: Credentials) -> Iterator[Cursor]:
    """A connection to this very process, over the socket that its options name or one of the usual places.

    NoWord if there is none, also for what goes wrong while it is used.
    """
    try:
        with _connected(process, options, who) as connection, connection.cursor() as cursor:
            yield cursor
    except pymysql.Error as error:
        raise NoWord(str(error.args[-1])) from None
    except OSError as error:
        raise NoWord(f"it has ended meanwhile, or is not ours to look at: {error.strerror or error}") from None


def _connected(process: Process, options: list[tuple[str, str]], who: Credentials) -> "pymysql.Connection[Cursor]":
    named = [v for k, v in options if k.replace("_", "-") == "socket" and v]
    places = listening(process.pid) or named[-1:] or list(_SOCKETS)
    reason = ""
    # The socket of MySQL's X protocol does not speak to us.
    for place in sorted(places, key=lambda place: "mysqlx" in place):
        path = os.fspath(inside.path(process.pid, os.path.join(os.readlink(f"/proc/{process.pid}/cwd"), place)))
        if not os.path.exists(path):
            continue
        try:
            return _connect(process, path, who)
        except NoWord as error:
            reason = reason or str(error)
    raise NoWord(reason or "no socket of it is found")


def listening(pid: int) -> list[str]:
    """The sockets that it listens on, as it calls them; none if that cannot be seen."""
    try:
        return inside.listening(pid)
    except OSError:
        return []


def peer(talk: socket.socket) -> int:
    """The process that listens on the other side of a connected socket, by the kernel's word (unix(7), SO_PEERCRED)."""
    pid: int = struct.unpack("iII", talk.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid


def _connect(process: Process, path: str, who: Credentials) -> "pymysql.Connection[Cursor]":
    talk = socket.socket(socket.AF_UNIX)
    try:
        talk.settimeout(10)
        talk.connect(path)
        if (answers := peer(talk)) != process.pid:
            raise NoWord(f"its socket is answered by process {answers}")
        connection = pymysql.connect(
            unix_socket=path, user=who.user, password=who.password or "", read_timeout=30, defer_connect=True
        )
        connection.connect(sock=talk)
    except pymysql.Error as error:
        talk.close()
        raise NoWord(str(error.args[-1])) from None
    except OSError as error:
        talk.close()
        raise NoWord(error.strerror or str(error)) from None
    except NoWord:
        talk.close()
        raise
    return connection


def _other_root(pid: int) -> bool:
    """Whether it sees other files than we do."""
    home = Path(f"/proc/{pid}")
    return not _same_file(home / "root", Path("/")) or (
        os.readlink(home / "ns/mnt") != os.readlink("/proc/self/ns/mnt") and not _same_file(home / "root/etc", Path("/etc"))
    )


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
