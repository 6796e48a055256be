"""The loadable function by which a server's own malloc speaks (native/udf): asked, installed, removed.

Installing is two things: the library in the server's plugin directory, and CREATE FUNCTION. The latter is a statement that
servers write to their binary log and that clusters repeat on every member, where the library would be missing; so it is kept
out of the log, and refused in a cluster.
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
from dballoc.explain import address_space, books, plugin_directory
from dballoc.explain.books.account import Account
from dballoc.servers import process
from dballoc.servers.credentials import Credentials

LIBRARY = "dballoc_udf.so"
STATS, TRIM = "dballoc_malloc_stats", "dballoc_malloc_trim"

# Errors by their numbers, which MySQL and MariaDB share, and what to do about them.
_REMEDIES = {
    1044: "it takes INSERT and DELETE on the database mysql: log in as an account that has them",
    1142: "it takes INSERT and DELETE on the database mysql: log in as an account that has them",
    1227: "log in as an account that may (SUPER, or SYSTEM_VARIABLES_ADMIN)",
    1123: "a server started with --skip-grant-tables loads no functions",
    1126: "its AppArmor or SELinux policy, or a noexec mount, may keep the server from loading what lies there",
    1127: "the library is another version's: remove the function and install it again",
    1290: "make it writable first, SET GLOBAL read_only = 0, or ask its primary",
    1836: "make it writable first, SET GLOBAL super_read_only = 0, or ask its primary",
}
# No such function: MySQL says so in other words where no database is selected.
_ABSENT = (1305, 1046, 1128)
_MEMBERS = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE NOT IN ('OFFLINE', '')"


@dataclass(frozen=True)
class Standing:
    """What a server has of ours: ``rows``: library by function; ``file``: whether the library lies in ``directory``, its
    plugin directory; ``same``: as this dballoc has it. ``variables`` in lower case; ``members`` of a replication group.
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
    """The account of the server's malloc; None if the function is not there. ``books.Unreadable`` if it says what we do not
    know, pymysql.Error if it cannot be called.
    """
    try:
        cursor.execute(f"SELECT {STATS}()")
    except pymysql.Error as error:
        if error.args[0] in _ABSENT:
            return None
        raise
    return books.read(_text(cursor))


def _text(cursor: Cursor) -> str:
    [(said,)] = cursor.fetchall()
    return said.decode() if isinstance(said, bytes) else str(said)


def refusal(variables: Mapping[str, str], members: int) -> str | None:
    """Why functions must not be created or dropped on this server; None if they may be. Pure."""
    if variables.get("wsrep_on", "OFF").upper() in ("ON", "1"):
        return (
            "this server is a member of a Galera cluster (wsrep_on), which would repeat CREATE FUNCTION on every member, and"
            " those without the library would leave the cluster"
        )
    if members:
        return (
            f"this server is one of {members} members of a replication group, which must stay alike: a function that one member"
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
        "the server loads the library, also when it starts again; every account may then call the function, which tells sizes",
    ]


def steps_to_remove(found: Standing) -> list[str]:
    """What :func:`remove` is going to do, in words."""
    drop = f"SET sql_log_bin = 0, and DROP FUNCTION {', '.join(sorted(found.rows))}" if found.rows else ""
    return [step for step in (drop, f"remove {found.directory}/{LIBRARY}" if found.file else "") if step]


def look(pid: int, who: Credentials) -> Standing:
    """What there is now. UsageError if the server refuses such things; Failure if it cannot be asked."""
    with _talking(pid, who) as cursor:
        return _look(pid, cursor)


def install(pid: int, who: Credentials) -> None:
    """Do it. Failure in one line, with everything undone, if it does not work."""
    library = _library()
    with _talking(pid, who) as cursor:
        found = _look(pid, cursor)
        if other := next((lib for lib in found.rows.values() if lib != LIBRARY), None):
            raise UsageError(f"a function {STATS} of another library, {other}, is there: drop it first")
        _unlogged(cursor, found.variables)
        # One of another version must be dropped before its file is replaced.
        _drop(cursor, found)
        with plugin_directory.directory(pid, found.directory) as directory:
            try:
                plugin_directory.write(directory, LIBRARY, library.read_bytes())
                cursor.execute(f"CREATE FUNCTION {STATS} RETURNS STRING SONAME '{LIBRARY}'")
                cursor.execute(f"SELECT {STATS}()")
                books.read(_text(cursor))
            except BaseException:
                # What went wrong is what is told, also where the server has gone meanwhile.
                with contextlib.suppress(Exception):
                    _drop(cursor, _look(pid, cursor))
                plugin_directory.remove(directory, LIBRARY)
                raise


def remove(pid: int, who: Credentials) -> None:
    """Drop our functions and remove the library. Failure in one line if that does not work; it can be done again."""
    with _talking(pid, who) as cursor:
        found = _look(pid, cursor)
        _unlogged(cursor, found.variables)
        _drop(cursor, found)
        with plugin_directory.directory(pid, found.directory) as directory:
            plugin_directory.remove(directory, LIBRARY)


def trim(pid: int, who: Credentials) -> Trimmed:
    """Have the server's malloc give back what it holds free. The function for it exists for that long alone: every account
    could call it, and it may stop allocating threads for as long as it takes.
    """
    with _talking(pid, who) as cursor:
        found = _look(pid, cursor)
        if not found.installed:
            raise UsageError(
                "--trim is done by the loadable function, which is not installed: dballoc explain --install-function"
            )
        _unlogged(cursor, found.variables)
        if TRIM not in found.rows:
            cursor.execute(f"CREATE FUNCTION {TRIM} RETURNS STRING SONAME '{LIBRARY}'")
        try:
            before, began = _resident(pid), time.monotonic()
            cursor.execute(f"SELECT {TRIM}()")
            called = books.called(_text(cursor))
            seconds = time.monotonic() - began
        finally:
            cursor.execute(f"DROP FUNCTION {TRIM}")
        if called is None:
            raise Failure("this malloc cannot be asked to give memory back")
        return Trimmed(called, before, _resident(pid), seconds)


@contextlib.contextmanager
def _talking(pid: int, who: Credentials) -> Iterator[Cursor]:
    server = process.look(pid, "process")
    try:
        with process.talking(server, process.given(server), who) as cursor:
            try:
                yield cursor
            except pymysql.Error as error:
                raise Failure(_words(error)) from None
            except (plugin_directory.Closed, books.Unreadable) as error:
                raise Failure(str(error)) from None
    except process.NoWord as error:
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
    return Standing(pid, place, rows, there is not None, there == _library().read_bytes(), variables, members)


def _library() -> Path:
    path = Path(str(files("dballoc") / "_native" / f"lib{LIBRARY}"))
    if not path.exists():
        raise Failure(f"{path} is not there: this dballoc was installed without its native parts; run make setup")
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
