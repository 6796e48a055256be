"""Call, install and remove the loadable function (native/udf) that returns the statistics of a
server's own malloc.

Installing copies the library into the server's plugin directory and runs CREATE FUNCTION. Servers
write that statement to their binary log, and clusters repeat it on every member, where the library
is missing; so it is kept out of the log, and refused in a cluster.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from dballoc.evidence.files import plugin_directory
from dballoc.evidence.sql import allocator_statistics, interrupts
from dballoc.evidence.sql.server_memory import query_values
from dballoc.ground.errors import Failure, UsageError
from dballoc.host.abandonable.abandonable_work import run_abandonable
from dballoc.host.process.handle import Process
from dballoc.process import smaps
from dballoc.process.heaps.allocator_statistics import AllocatorStatistics
from dballoc.servers.running import running_server
from dballoc.servers.running.credentials import Credentials
from dballoc.servers.running.sql_values import describe_refusal

LIBRARY = "dballoc_udf.so"
STATS, TRIM = "dballoc_malloc_stats", "dballoc_malloc_trim"

# Remedies by error number; MySQL and MariaDB share the numbers.
_REMEDIES = {
    1044: "needs INSERT and DELETE on the database mysql: log in as an account that has them",
    1142: "needs INSERT and DELETE on the database mysql: log in as an account that has them",
    1227: "log in as an account with SUPER or SYSTEM_VARIABLES_ADMIN",
    1123: "a server started with --skip-grant-tables loads no functions",
    1126: "its AppArmor or SELinux policy, or a noexec mount, may keep the server from loading "
    "libraries from there",
    1127: "the library is another version's: remove the function and install it again",
    1290: "make it writable first, SET GLOBAL read_only = 0, or ask its primary",
    1836: "make it writable first, SET GLOBAL super_read_only = 0, or ask its primary",
}
# No such function; MySQL has another error for it where no database is selected.
_ABSENT = (1305, 1046, 1128)
# The connection is lost, or the answer took too long.
_LOST = (0, 2006, 2013)
# How often DROP FUNCTION is tried, the seconds between tries, and after which no other try begins;
# how many seconds a session that may still be creating the function is waited for.
_TRIES, _PAUSE, _DROPPING, _MAKING = 5, 1.0, 60.0, 20.0
_SESSION = "SELECT INFO FROM information_schema.PROCESSLIST WHERE ID = %s"
_MEMBERS = (
    "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE NOT IN "
    "('OFFLINE', '')"
)


@dataclass(frozen=True, kw_only=True)
class Installation:
    """What is installed in a server. ``rows``: library by function; ``file``: whether the library
    lies in ``directory``, its plugin directory; ``same``: whether it is this dballoc's version.
    ``variables``: by name in lower case; ``members``: of its replication group.
    """

    directory: str
    rows: Mapping[str, str]
    file: bool
    same: bool
    variables: Mapping[str, str]
    members: int

    @property
    def installed(self) -> bool:
        """Whether the function of this version's library can be called."""
        return self.rows.get(STATS) == LIBRARY and self.file and self.same

    @property
    def absent(self) -> bool:
        """Whether there is neither function nor library."""
        return not self.rows and not self.file


@dataclass(frozen=True)
class TrimResult:
    """``called``: name of what was called; RSS ``before`` and ``after``, bytes; ``seconds`` that it
    took.
    """

    called: str
    before: int
    after: int
    seconds: float


def query_malloc_statistics(cursor: Cursor) -> AllocatorStatistics | None:
    """Return the statistics of the server's malloc; None if the function is not installed.
    Raises UnreadableStatistics for an answer that cannot be parsed, pymysql.Error if the call
    fails.
    """
    try:
        cursor.execute(f"SELECT {STATS}()")
    except pymysql.Error as error:
        if error.args[0] in _ABSENT:
            return None
        raise
    return allocator_statistics.parse_statistics(_fetch_text(cursor))


def _fetch_text(cursor: Cursor) -> str:
    [(answer,)] = cursor.fetchall()
    if answer is None:
        raise allocator_statistics.UnreadableStatistics(
            "another session is reading the statistics of this malloc: try again"
        )
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def find_refusal(variables: Mapping[str, str], members: int) -> str | None:
    """Return why functions must not be created or dropped on this server; None if they may be.
    Pure.
    """
    if variables.get("wsrep_on", "OFF").upper() in ("ON", "1"):
        return (
            "this server is a member of a Galera cluster (wsrep_on), which would repeat CREATE "
            "FUNCTION on every member, and those without the library would leave the cluster"
        )
    if members:
        return (
            f"this server is one of {members} members of a replication group; members must not "
            "differ, so no function is installed on one of them alone"
        )
    if not variables.get("plugin_dir", "").startswith("/"):
        return "this server has no plugin directory (@@plugin_dir), so it loads no functions"
    return None


def select_own_functions(rows: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """Return the library of each function that is ours: of whatever a server returns, their names
    alone become words of SQL.
    """
    return {str(name): str(library) for name, library in rows if name in (STATS, TRIM)}


def list_install_steps(installation: Installation) -> list[str]:
    """List in words what :func:`install_function` is going to do."""
    return [
        f"copy {LIBRARY} into {installation.directory}, as the server sees it",
        f"SET sql_log_bin = 0, and CREATE FUNCTION {STATS} RETURNS STRING SONAME '{LIBRARY}'",
        "the server loads the library, also when it starts again; every account may then call the "
        "function, which returns nothing but sizes",
    ]


def list_remove_steps(installation: Installation) -> list[str]:
    """List in words what :func:`remove_function` is going to do."""
    drop = (
        f"SET sql_log_bin = 0, and DROP FUNCTION {', '.join(sorted(installation.rows))}"
        if installation.rows
        else ""
    )
    remove_file = f"remove {installation.directory}/{LIBRARY}" if installation.file else ""
    return [step for step in (drop, remove_file) if step]


def read_installation(process: Process, credentials: Credentials) -> Installation:
    """Return what is installed now. Raises UsageError if functions must not be created on this
    server; Failure if it cannot be connected to.
    """
    with _connect(process, credentials) as cursor:
        return _query_installation(process, cursor)


def install_function(process: Process, credentials: Credentials) -> None:
    """Copy the library and create the function. Failure in one line, with everything undone, if it
    does not work.
    """
    library = _find_library()
    with _connect(process, credentials) as cursor:
        installation = _query_installation(process, cursor)
        if other := next((lib for lib in installation.rows.values() if lib != LIBRARY), None):
            raise UsageError(
                f"the server has a function {STATS} of another library, {other}: drop it first"
            )
        _disable_binary_log(cursor, installation.variables)
        # A function of another version must be dropped before its library is replaced.
        _drop_functions(cursor, installation)
        with plugin_directory.open_directory(process, installation.directory) as directory:

            def undo() -> None:
                try:
                    _drop_with_retries(process, credentials, cursor, installation.variables, STATS)
                finally:
                    plugin_directory.remove_file(directory, LIBRARY)

            with interrupts.undo_on_interrupt(undo):
                plugin_directory.write_file(directory, LIBRARY, library.read_bytes())
                cursor.execute(f"CREATE FUNCTION {STATS} RETURNS STRING SONAME '{LIBRARY}'")
                cursor.execute(f"SELECT {STATS}()")
                allocator_statistics.parse_statistics(_fetch_text(cursor))


def remove_function(process: Process, credentials: Credentials) -> None:
    """Drop the functions and remove the library. Raises Failure if that does not work; it can be
    repeated.
    """
    with _connect(process, credentials) as cursor:
        installation = _query_installation(process, cursor)
        _disable_binary_log(cursor, installation.variables)
        _drop_functions(cursor, installation)
        with plugin_directory.open_directory(process, installation.directory) as directory:
            plugin_directory.remove_file(directory, LIBRARY)


def trim_malloc(process: Process, credentials: Credentials) -> TrimResult:
    """Make the server's malloc return its free memory to the kernel. The function for it is dropped
    at once: every account could call it, and threads that allocate may wait while it runs.
    """
    with _connect(process, credentials) as cursor:
        installation = _query_installation(process, cursor)
        if not installation.installed:
            raise UsageError(
                "--trim needs the loadable function, which is not installed: dballoc explain "
                "--install-function"
            )
        _disable_binary_log(cursor, installation.variables)

        def drop() -> None:
            _drop_with_retries(process, credentials, cursor, installation.variables, TRIM)

        with interrupts.undo_on_interrupt(drop, always=True):
            if TRIM not in installation.rows:
                cursor.execute(f"CREATE FUNCTION {TRIM} RETURNS STRING SONAME '{LIBRARY}'")
            before, began = _measure_rss(process), time.monotonic()
            called = _call_trim(cursor, began)
            seconds = time.monotonic() - began
        if called is None:
            raise Failure("this malloc has no call that returns free memory")
        return TrimResult(called, before, _measure_rss(process), seconds)


def describe_leftover_trim(cursor: Cursor) -> str | None:
    """Return a note if the function for --trim is still there; None where it is not, or this
    account may not see it.
    """
    try:
        cursor.execute(
            "SELECT COUNT(*) FROM mysql.func WHERE name = %s AND dl = %s", (TRIM, LIBRARY)
        )
        [(count,)] = cursor.fetchall()
    except pymysql.Error:
        return None
    return f"{_describe_leftover(TRIM)} (a --trim was killed, or is under way)" if count else None


def _call_trim(cursor: Cursor, began: float) -> str | None:
    """Return the name of what was called. Raises Failure if the server does not answer before the
    connection's timeout.
    """
    try:
        cursor.execute(f"SELECT {TRIM}()")
        return allocator_statistics.parse_trim_answer(_fetch_text(cursor))
    except pymysql.OperationalError as error:
        if error.args[0] not in _LOST:
            raise
        raise Failure(
            f"the server's malloc did not finish within {time.monotonic() - began:.0f} s and goes "
            "on returning memory; the function that called it has been dropped"
        ) from None


def _describe_leftover(name: str) -> str:
    return (
        f"the function {name} is still in the server, and every account may call it: remove it "
        "with dballoc explain --remove-function, or by SQL: SET sql_log_bin = 0; "
        f"DROP FUNCTION {name};"
    )


def _drop_with_retries(
    process: Process,
    credentials: Credentials,
    cursor: Cursor,
    variables: Mapping[str, str],
    name: str,
) -> None:
    """Drop a function, if it is there, over this connection, or over a new one if this is lost.
    Failure, which tells how to drop it by hand, where that does not work.
    """
    refused, until = "", time.monotonic() + _DROPPING
    for attempt in range(_TRIES):
        if attempt:
            if time.monotonic() > until:
                break
            time.sleep(_PAUSE)
        try:
            if cursor.connection.open:
                _drop_if_exists(cursor, variables, name)
            else:
                with _connect(process, credentials) as another:
                    _end_session(another, cursor.connection)
                    _drop_if_exists(another, variables, name)
            return
        except (pymysql.Error, Failure, UsageError) as error:
            refused = describe_refusal(error)
    raise Failure(f"{_describe_leftover(name)} (it could not be dropped: {refused})")


def _drop_if_exists(cursor: Cursor, variables: Mapping[str, str], name: str) -> None:
    _disable_binary_log(cursor, variables)
    cursor.execute("SELECT COUNT(*) FROM mysql.func WHERE name = %s AND dl = %s", (name, LIBRARY))
    [(count,)] = cursor.fetchall()
    if count:
        cursor.execute(f"DROP FUNCTION {name}")


def _end_session(cursor: Cursor, lost: "pymysql.Connection[Cursor]") -> None:
    """End the session of a lost connection, which may still be creating the function, and wait
    until it has ended. A session that calls the function cannot be ended, and creates none.
    """
    session = int(lost.thread_id())  # type: ignore[no-untyped-call]
    with contextlib.suppress(pymysql.Error):
        cursor.execute(f"KILL {session}")
    deadline = time.monotonic() + _MAKING
    while time.monotonic() < deadline:
        cursor.execute(_SESSION, (session,))
        rows = cursor.fetchall()
        if not rows or "CREATE FUNCTION" not in str(rows[0][0]).upper():
            return
        time.sleep(_PAUSE / 10)


@contextlib.contextmanager
def _connect(process: Process, credentials: Credentials) -> Iterator[Cursor]:
    server, options = run_abandonable(lambda: _read_server(process), process)
    try:
        with running_server.talking(server, options, credentials) as cursor:
            try:
                yield cursor
            except pymysql.Error as error:
                raise Failure(_describe_error(error)) from None
            except (
                plugin_directory.InaccessibleDirectory,
                allocator_statistics.UnreadableStatistics,
            ) as error:
                raise Failure(str(error)) from None
    except running_server.NoWord as error:
        raise Failure(f"cannot query the server: {error}") from None


def _read_server(process: Process) -> tuple[running_server.RunningServer, list[tuple[str, str]]]:
    server = running_server.look(process, "process")
    return server, running_server.given(server)


def _describe_error(error: pymysql.Error) -> str:
    remedy = _REMEDIES.get(error.args[0])
    message = f"the server says: {describe_refusal(error)}"
    return f"{message}; {remedy}" if remedy else message


def _query_installation(process: Process, cursor: Cursor) -> Installation:
    variables = query_values(cursor, "SHOW GLOBAL VARIABLES")
    try:
        cursor.execute(_MEMBERS)
        members = int(cursor.fetchall()[0][0])
    except pymysql.Error:
        members = 0  # a server without such groups
    if reason := find_refusal(variables, members):
        raise UsageError(reason)
    cursor.execute("SELECT name, dl FROM mysql.func WHERE name IN (%s, %s)", (STATS, TRIM))
    rows = select_own_functions(cursor.fetchall())
    path = variables["plugin_dir"].rstrip("/") or "/"
    with plugin_directory.open_directory(process, path) as directory:
        installed_library = plugin_directory.read_file(directory, LIBRARY)
    return Installation(
        directory=path,
        rows=rows,
        file=installed_library is not None,
        same=installed_library == _find_library().read_bytes(),
        variables=variables,
        members=members,
    )


def _find_library() -> Path:
    path = Path(str(files("dballoc") / "_native" / f"lib{LIBRARY}"))
    if not path.exists():
        raise Failure(
            f"{path} is missing: this dballoc was installed without its native parts; run make "
            "setup"
        )
    return path


def _disable_binary_log(cursor: Cursor, variables: Mapping[str, str]) -> None:
    cursor.execute("ROLLBACK")  # queries began a transaction, in which sql_log_bin cannot be set
    try:
        cursor.execute("SET SESSION sql_log_bin = 0")
    except pymysql.Error:
        # Without a binary log there is nothing to disable.
        if variables.get("log_bin", "ON").upper() not in ("OFF", "0"):
            raise


def _drop_functions(cursor: Cursor, installation: Installation) -> None:
    for name in sorted(installation.rows):
        if installation.rows[name] == LIBRARY:
            cursor.execute(f"DROP FUNCTION {name}")


def _measure_rss(process: Process) -> int:
    """Measure RSS, in a child: another process can hold up who reads about its memory."""
    try:
        return run_abandonable(
            lambda: sum(mapping.rss for mapping in smaps.read_mappings(process)),
            process,
        )
    except OSError as error:
        raise Failure(f"{process}: {error.strerror}") from None
