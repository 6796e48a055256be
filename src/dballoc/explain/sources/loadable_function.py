"""The loadable function by which a server's own malloc speaks (native/udf): asked, installed,
removed.

Installing is two things: the library in the server's plugin directory, and CREATE FUNCTION. The
latter is a statement that servers write to their binary log and that clusters repeat on every
member, where the library would be missing; so it is kept out of the log, and refused in a cluster.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pymysql
from pymysql.cursors import Cursor

from dballoc.errors import Failure, UsageError
from dballoc.explain.sources import allocator_statistics, interrupts, plugin_directory
from dballoc.process_memory import address_space
from dballoc.process_memory.heaps.allocator_account import Account
from dballoc.servers.running import running_server
from dballoc.servers.running.credentials import Credentials

LIBRARY = "dballoc_udf.so"
STATS, TRIM = "dballoc_malloc_stats", "dballoc_malloc_trim"

# Errors by their numbers, which MySQL and MariaDB share, and what to do about them.
_REMEDIES = {
    1044: "it takes INSERT and DELETE on the database mysql: log in as an account that has them",
    1142: "it takes INSERT and DELETE on the database mysql: log in as an account that has them",
    1227: "log in as an account that may (SUPER, or SYSTEM_VARIABLES_ADMIN)",
    1123: "a server started with --skip-grant-tables loads no functions",
    1126: "its AppArmor or SELinux policy, or a noexec mount, may keep the server from loading "
    "what lies there",
    1127: "the library is another version's: remove the function and install it again",
    1290: "make it writable first, SET GLOBAL read_only = 0, or ask its primary",
    1836: "make it writable first, SET GLOBAL super_read_only = 0, or ask its primary",
}
# No such function: MySQL says so in other words where no database is selected.
_ABSENT = (1305, 1046, 1128)
# The connection is lost, or the answer did not come in time.
_LOST = (0, 2006, 2013)
# How often the server is asked again to drop a function, and how long after, seconds; how long for
# one that it may still be making.
_TRIES, _PAUSE, _MAKING = 5, 1.0, 20.0
_SESSION = "SELECT INFO FROM information_schema.PROCESSLIST WHERE ID = %s"
_MEMBERS = (
    "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE NOT IN "
    "('OFFLINE', '')"
)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a server has of ours: ``rows``: library by function; ``file``: whether the library lies
    in ``directory``, its plugin directory; ``same``: as this dballoc has it. ``variables`` in lower
    case; ``members`` of a replication group.
    """

    pid: int
    directory: str
    rows: Mapping[str, str]
    file: bool
    same: bool
    variables: Mapping[str, str]
    members: int

    @property
    def installed(self) -> bool:
        """Whether it can be asked, by this version's library."""
        return self.rows.get(STATS) == LIBRARY and self.file and self.same

    @property
    def absent(self) -> bool:
        """Whether there is nothing of ours."""
        return not self.rows and not self.file


@dataclass(frozen=True)
class Trimmed:
    """``called``: what; resident bytes ``before`` and ``after``; ``seconds`` that it took."""

    called: str
    before: int
    after: int
    seconds: float


def ask(cursor: Cursor) -> Account | None:
    """The account of the server's malloc; None if the function is not there. ``books.Unreadable``
    if it says what we do not know, pymysql.Error if it cannot be called.
    """
    try:
        cursor.execute(f"SELECT {STATS}()")
    except pymysql.Error as error:
        if error.args[0] in _ABSENT:
            return None
        raise
    return allocator_statistics.read(_text(cursor))


def _text(cursor: Cursor) -> str:
    [(said,)] = cursor.fetchall()
    if said is None:
        raise allocator_statistics.Unreadable(
            "the server is still asking its malloc for another session: try again"
        )
    return said.decode() if isinstance(said, bytes) else str(said)


def refusal(variables: Mapping[str, str], members: int) -> str | None:
    """Why functions must not be created or dropped on this server; None if they may be. Pure."""
    if variables.get("wsrep_on", "OFF").upper() in ("ON", "1"):
        return (
            "this server is a member of a Galera cluster (wsrep_on), which would repeat CREATE "
            "FUNCTION on every member, and"
            " those without the library would leave the cluster"
        )
    if members:
        return (
            f"this server is one of {members} members of a replication group, which must stay "
            "alike: a function that one member"
            " alone has is not for them"
        )
    if not variables.get("plugin_dir", "").startswith("/"):
        return "this server has no plugin directory (@@plugin_dir), so it loads no functions"
    return None


def steps_to_install(found: Standing) -> list[str]:
    """What :func:`install` is going to do, in words."""
    return [
        f"copy {LIBRARY} into {found.directory}, as the server sees it",
        f"SET sql_log_bin = 0, and CREATE FUNCTION {STATS} RETURNS STRING SONAME '{LIBRARY}'",
        "the server loads the library, also when it starts again; every account may then call the "
        "function, which tells sizes",
    ]


def steps_to_remove(found: Standing) -> list[str]:
    """What :func:`remove` is going to do, in words."""
    drop = (
        f"SET sql_log_bin = 0, and DROP FUNCTION {', '.join(sorted(found.rows))}"
        if found.rows
        else ""
    )
    return [
        step for step in (drop, f"remove {found.directory}/{LIBRARY}" if found.file else "") if step
    ]


def look(pid: int, who: Credentials) -> Standing:
    """What there is now. UsageError if the server refuses such things; Failure if it cannot be
    asked.
    """
    with _talking(pid, who) as cursor:
        return _look(pid, cursor)


def install(pid: int, who: Credentials) -> None:
    """Do it. Failure in one line, with everything undone, if it does not work."""
    library = _library()
    with _talking(pid, who) as cursor:
        found = _look(pid, cursor)
        if other := next((lib for lib in found.rows.values() if lib != LIBRARY), None):
            raise UsageError(
                f"a function {STATS} of another library, {other}, is there: drop it first"
            )
        _unlogged(cursor, found.variables)
        # One of another version must be dropped before its file is replaced.
        _drop(cursor, found)
        with plugin_directory.directory(pid, found.directory) as directory:

            def undo() -> None:
                try:
                    _drop_surely(pid, who, cursor, found.variables, STATS)
                finally:
                    plugin_directory.remove(directory, LIBRARY)

            with interrupts.undone(undo):
                plugin_directory.write(directory, LIBRARY, library.read_bytes())
                cursor.execute(f"CREATE FUNCTION {STATS} RETURNS STRING SONAME '{LIBRARY}'")
                cursor.execute(f"SELECT {STATS}()")
                allocator_statistics.read(_text(cursor))


def remove(pid: int, who: Credentials) -> None:
    """Drop our functions and remove the library. Failure in one line if that does not work; it can
    be done again.
    """
    with _talking(pid, who) as cursor:
        found = _look(pid, cursor)
        _unlogged(cursor, found.variables)
        _drop(cursor, found)
        with plugin_directory.directory(pid, found.directory) as directory:
            plugin_directory.remove(directory, LIBRARY)


def trim(pid: int, who: Credentials) -> Trimmed:
    """Have the server's malloc give back what it holds free. The function for it exists for that
    long alone: every account could call it, and it may stop allocating threads for as long as it
    takes.
    """
    with _talking(pid, who) as cursor:
        found = _look(pid, cursor)
        if not found.installed:
            raise UsageError(
                "--trim is done by the loadable function, which is not installed: dballoc explain "
                "--install-function"
            )
        _unlogged(cursor, found.variables)
        with interrupts.undone(
            lambda: _drop_surely(pid, who, cursor, found.variables, TRIM), always=True
        ):
            if TRIM not in found.rows:
                cursor.execute(f"CREATE FUNCTION {TRIM} RETURNS STRING SONAME '{LIBRARY}'")
            before, began = _resident(pid), time.monotonic()
            called = _call_trim(cursor, began)
            seconds = time.monotonic() - began
        if called is None:
            raise Failure("this malloc cannot be asked to give memory back")
        return Trimmed(called, before, _resident(pid), seconds)


def leftover(cursor: Cursor) -> str | None:
    """What to say of the function for --trim where it stands; None where it does not, or this
    account may not see it.
    """
    try:
        cursor.execute(
            "SELECT COUNT(*) FROM mysql.func WHERE name = %s AND dl = %s", (TRIM, LIBRARY)
        )
        [(count,)] = cursor.fetchall()
    except pymysql.Error:
        return None
    return f"{_stands(TRIM)} (a --trim was killed, or is under way)" if count else None


def _call_trim(cursor: Cursor, began: float) -> str | None:
    """What was called, in words. Failure if the server does not answer for as long as the
    connection waits.
    """
    try:
        cursor.execute(f"SELECT {TRIM}()")
        return allocator_statistics.called(_text(cursor))
    except pymysql.OperationalError as error:
        if error.args[0] not in _LOST:
            raise
        raise Failure(
            f"the server's malloc has not come to an end within {time.monotonic() - began:.0f} s, "
            "and goes on giving memory"
            " back; the function that called it is dropped"
        ) from None


def _stands(name: str) -> str:
    return (
        f"the function {name} stands in the server, and every account may call it: remove it with "
        "dballoc explain"
        f" --remove-function, or by SQL: SET sql_log_bin = 0; DROP FUNCTION {name};"
    )


def _drop_surely(
    pid: int, who: Credentials, cursor: Cursor, variables: Mapping[str, str], name: str
) -> None:
    """Drop a function, if it is there, over this connection, or if that is lost over another one.
    Failure, with what stands, where the server cannot be asked for that.
    """
    refused = ""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        try:
            if cursor.connection.open:
                _drop_if_there(cursor, variables, name)
            else:
                with _talking(pid, who) as another:
                    _end(another, cursor.connection)
                    _drop_if_there(another, variables, name)
            return
        except (pymysql.Error, Failure, UsageError) as error:
            refused = str(error.args[-1])
    raise Failure(f"{_stands(name)} (it could not be dropped: {refused})")


def _drop_if_there(cursor: Cursor, variables: Mapping[str, str], name: str) -> None:
    _unlogged(cursor, variables)
    cursor.execute("SELECT COUNT(*) FROM mysql.func WHERE name = %s AND dl = %s", (name, LIBRARY))
    [(count,)] = cursor.fetchall()
    if count:
        cursor.execute(f"DROP FUNCTION {name}")


def _end(cursor: Cursor, lost: "pymysql.Connection[Cursor]") -> None:
    """A session whose connection is lost may still be making the function: end it, and wait until
    it has ended. One that calls the function cannot be ended, and makes none.
    """
    session = int(lost.thread_id())  # type: ignore[no-untyped-call]
    with contextlib.suppress(pymysql.Error):
        cursor.execute(f"KILL {session}")
    until = time.monotonic() + _MAKING
    while time.monotonic() < until:
        cursor.execute(_SESSION, (session,))
        rows = cursor.fetchall()
        if not rows or "CREATE FUNCTION" not in str(rows[0][0]).upper():
            return
        time.sleep(_PAUSE / 10)


@contextlib.contextmanager
def _talking(pid: int, who: Credentials) -> Iterator[Cursor]:
    server = running_server.look(pid, "process")
    try:
        with running_server.talking(server, running_server.given(server), who) as cursor:
            try:
                yield cursor
            except pymysql.Error as error:
                raise Failure(_words(error)) from None
            except (plugin_directory.Closed, allocator_statistics.Unreadable) as error:
                raise Failure(str(error)) from None
    except running_server.NoWord as error:
        raise Failure(f"the server cannot be asked: {error}") from None


def _words(error: pymysql.Error) -> str:
    remedy = _REMEDIES.get(error.args[0])
    said = str(error.args[-1])
    return f"the server says: {said}; {remedy}" if remedy else f"the server says: {said}"


def _look(pid: int, cursor: Cursor) -> Standing:
    cursor.execute("SHOW GLOBAL VARIABLES")
    variables = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
    try:
        cursor.execute(_MEMBERS)
        members = int(cursor.fetchall()[0][0])
    except pymysql.Error:
        members = 0  # a server without such groups
    if reason := refusal(variables, members):
        raise UsageError(reason)
    cursor.execute("SELECT name, dl FROM mysql.func WHERE name IN (%s, %s)", (STATS, TRIM))
    rows = {str(name): str(library) for name, library in cursor.fetchall()}
    place = variables["plugin_dir"].rstrip("/") or "/"
    with plugin_directory.directory(pid, place) as directory:
        there = plugin_directory.read(directory, LIBRARY)
    return Standing(
        pid=pid,
        directory=place,
        rows=rows,
        file=there is not None,
        same=there == _library().read_bytes(),
        variables=variables,
        members=members,
    )


def _library() -> Path:
    path = Path(str(files("dballoc") / "_native" / f"lib{LIBRARY}"))
    if not path.exists():
        raise Failure(
            f"{path} is not there: this dballoc was installed without its native parts; run make "
            "setup"
        )
    return path


def _unlogged(cursor: Cursor, variables: Mapping[str, str]) -> None:
    cursor.execute("ROLLBACK")  # what was read has begun a transaction, in which it cannot be set
    try:
        cursor.execute("SET SESSION sql_log_bin = 0")
    except pymysql.Error:
        # Without a binary log there is nothing to keep it out of.
        if variables.get("log_bin", "ON").upper() not in ("OFF", "0"):
            raise


def _drop(cursor: Cursor, found: Standing) -> None:
    for name in sorted(found.rows):
        if found.rows[name] == LIBRARY:
            cursor.execute(f"DROP FUNCTION {name}")


def _resident(pid: int) -> int:
    try:
        return sum(mapping.rss for mapping in address_space.read(pid))
    except OSError as error:
        raise Failure(f"process {pid}: {error.strerror}") from None
