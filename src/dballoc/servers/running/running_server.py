"""Read a running server from outside: its executable, its arguments, what its option files gave,
its own variables.

It only reads /proc and option files, and runs SELECTs over the socket. Nothing of the server is
executed.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pymysql
from pymysql.cursors import Cursor

from dballoc.catalogue import servers
from dballoc.ground.errors import UsageError
from dballoc.host.elf import loader
from dballoc.host.process import process_root, read_rights
from dballoc.host.process.handle import Process
from dballoc.servers.running import connection, option_files
from dballoc.servers.running.adopted_options import parse
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.option_files import OptionFiles
from dballoc.servers.running.sql_values import describe_refusal

_REPLACED = " (deleted)"
# A wait that is longer is announced.
_ANNOUNCE_SECONDS = 2.0
Announce = Callable[[str], None]

_MARIADB = """SELECT VARIABLE_NAME, GLOBAL_VALUE FROM information_schema.SYSTEM_VARIABLES
 WHERE GLOBAL_VALUE_ORIGIN IN ('CONFIG', 'COMMAND-LINE', 'SQL') AND GLOBAL_VALUE IS NOT NULL"""
_MYSQL = """SELECT VARIABLE_NAME, v.VARIABLE_VALUE FROM performance_schema.variables_info
 JOIN performance_schema.global_variables v USING (VARIABLE_NAME)
 WHERE VARIABLE_SOURCE <> 'COMPILED' AND (VARIABLE_SOURCE <> 'DYNAMIC' OR SET_USER IS NOT NULL)"""


class NoWord(Exception):
    """The server cannot be queried; the text is a short reason."""


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """``executable``: its path in the server's own mount namespace;
    ``elsewhere``: that namespace is not ours; ``loader``: the words before the program, if it was
    started through the loader.
    """

    process: Process
    executable: str
    arguments: tuple[str, ...]
    environ: dict[str, str]
    elsewhere: bool
    loader: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """A name for messages."""
        return f"{self.process} ({self.executable})"


def look(process: Process, flag: str = "--like") -> RunningServer:
    """Read which server a process is, that the flag ``flag`` gave. Raises UsageError if it is no
    server, has ended, or we may not read it.
    """
    named = f"{flag} {process.pid}"
    try:
        name = process.read_text("comm").strip()
        owner = process.home.stat()
    except PermissionError:
        refusal = read_rights.describe_refusal(process)
        raise UsageError(f"{named}: you may not read it; {refusal}") from None
    except OSError:
        raise UsageError(read_rights.describe_absence(process.pid)) from None
    try:
        link = process.read_link("exe")
        arguments = tuple(process.read_words())
        environ = process.read_environment()
        elsewhere = _other_root(process)
    except PermissionError:
        permitted = (
            read_rights.describe_refusal(process)
            if os.geteuid() in (0, owner.st_uid)
            else f"run as its owner, user {owner.st_uid}, or as root"
        )
        raise UsageError(f"{named}: you may not read {name}; {permitted}") from None
    except OSError as error:
        raise UsageError(f"{named}: {name}: {error.strerror}") from None
    executable, before = link.removesuffix(_REPLACED), 0
    if loader.is_loader(executable) and (before := loader.find_program_index(arguments) or 0):
        executable = loader.find_main_program(process)
    if not any(
        Path(executable).name.startswith(binary)
        for entry in servers().values()
        for binary in entry["binaries"]
    ):
        raise UsageError(f"{named}: {name} ({executable}) is not a MySQL-family server")
    return RunningServer(
        process=process,
        executable=executable,
        arguments=arguments[before + 1 :],
        environ=environ,
        elsewhere=elsewhere,
        loader=arguments[:before],
    )


def given(server: RunningServer) -> list[tuple[str, str]]:
    """Every option that it was started with, as far as that can be read: from option files, then
    from its arguments.
    """
    return read_options(server).options


def read_options(server: RunningServer) -> OptionFiles:
    """Read the options that it was started with, from option files, then from its arguments; the
    notes list what could not be read. Nothing of it is executed.
    """
    switches = list(
        takewhile(lambda argument: argument.startswith(option_files.SWITCHES), server.arguments)
    )
    files = option_files.read_option_files(
        server.process, server.executable, switches, server.environ
    )
    return OptionFiles([*files.options, *arguments(server)], files.notes)


def arguments(server: RunningServer) -> list[tuple[str, str]]:
    """Return the options of its command line only."""
    return parse(a for a in server.arguments if not a.startswith(option_files.SWITCHES))


def own_word(
    server: RunningServer, options: list[tuple[str, str]], credentials: Credentials
) -> dict[str, str]:
    """Return the variables that somebody has set, as the running server reports them. Raises NoWord
    if it cannot be queried.
    """
    with talking(server, options, credentials) as cursor:
        cursor.execute("SELECT VERSION()")
        version = str(cursor.fetchall()[0][0])
        cursor.execute(_MARIADB if "mariadb" in version.lower() else _MYSQL)
        return {str(name).lower(): str(value) for name, value in cursor.fetchall()}


@contextlib.contextmanager
def talking(
    server: RunningServer,
    options: list[tuple[str, str]],
    credentials: Credentials,
    announce: Announce | None = None,
) -> Iterator[Cursor]:
    """Connect to exactly this process, over the socket that its options name or one of the usual
    ones. Raises NoWord if there is none, and for errors while the connection is used. ``announce``:
    is told what is waited for, in words, if that takes long.
    """
    waiting = threading.Timer(
        _ANNOUNCE_SECONDS,
        announce or (lambda _: None),
        [f"{server.words}: waiting for its answers over SQL"],
    )
    waiting.daemon = True
    if announce:  # without it there is no thread, so that a child can be started that connects
        waiting.start()
    try:
        with _connected(server, options, credentials) as connected, connected.cursor() as cursor:
            yield cursor
    except pymysql.Error as error:
        raise NoWord(describe_refusal(error)) from None
    except OSError as error:
        raise NoWord(
            f"it has ended meanwhile, or is not ours to look at: {error.strerror or error}"
        ) from None
    except connection.BROKEN as error:
        raise NoWord(f"what it answers cannot be understood ({type(error).__name__})") from None
    finally:
        waiting.cancel()


def _connected(
    server: RunningServer, options: list[tuple[str, str]], credentials: Credentials
) -> "pymysql.Connection[Cursor]":
    process = server.process
    named = [v for k, v in options if k.replace("_", "-") == "socket" and v]
    # The kernel tells who answers there; a password is not sent because of the socket's name.
    places = listening(process) or named[-1:] or [*connection.USUAL_SOCKETS, "/tmp/mysql.sock"]  # noqa: S108
    reason = ""
    # The socket of MySQL's X protocol does not speak our protocol.
    for place in sorted(places, key=lambda place: "mysqlx" in place):
        its = process.strip_root(os.path.join(process.read_link("cwd"), place))
        try:
            return connection.connect(process, its, credentials)
        except FileNotFoundError:
            continue
        except (connection.NoConnection, OSError) as error:
            reason = (
                reason or (error.strerror if isinstance(error, OSError) else None) or str(error)
            )
    raise NoWord(reason or "no socket of it is found")


def listening(process: Process) -> list[str]:
    """Return the sockets that it listens on, by its own paths; none if they cannot be read."""
    try:
        return process_root.list_listening_sockets(process)
    except OSError:
        return []


def _other_root(process: Process) -> bool:
    """Whether the server sees other files than we do."""
    return not is_same_file(process.root, Path("/")) or (
        process.read_link("ns/mnt") != os.readlink("/proc/self/ns/mnt")
        and not is_same_file(process.root / "etc", Path("/etc"))
    )


def is_same_file(first: Path, other: Path) -> bool:
    """Whether two paths lead to one file; False if either leads nowhere."""
    try:
        return first.samefile(other)
    except OSError:
        return False
