"""Connect to a private server with dballoc's own account."""

import os
import socket as sockets
import struct
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CR

USER = "dballoc"
DATABASE = "sbtest"


_TO_CONNECT = 10.0
# Seconds that a server may take for a cheap statement, and for a scan of all its data.
_PROMPTLY = 60.0
_WHOLE_SCAN = 24 * 3600.0


class Admin:
    """A connection over the socket, for readiness, warm-up SQL, status and shutdown. A server that
    accepts and then hangs must not make dballoc hang: every answer has a time limit, after which
    OperationalError 2013 is raised.
    """

    def __init__(
        self,
        socket: Path,
        password: str,
        database: str | None = DATABASE,
        patience: float = _PROMPTLY,
        listener: int | None = None,
    ) -> None:
        """``listener``: the user that must listen on the socket. The server may put a link in its
        place, and our account's name would then go to another service. pymysql.err.OperationalError
        if the socket cannot be reached, or belongs to another user.
        """
        self._connection = pymysql.connect(
            unix_socket=str(socket),
            user=USER,
            password=password,
            database=database,
            connect_timeout=10,
            read_timeout=patience,
            autocommit=True,
            defer_connect=True,
            # A socket needs no TLS, and reading the host's certificates takes 30 ms of CPU.
            ssl_disabled=True,
        )
        # PyMySQL sets this for a socket that it opens itself: the password may go over it.
        self._connection._secure = True  # type: ignore[attr-defined]
        self._connection.connect(sock=_connected(socket, listener))
        self._allow(_PROMPTLY)

    def _allow(self, seconds: float) -> None:
        # PyMySQL has no public way to change it; it reads this attribute before every read.
        self._connection._read_timeout = seconds  # type: ignore[attr-defined]

    def scan(self, sql: str) -> None:
        """Run a query that may take hours, and discard its result. Raises pymysql.Error as it
        comes.
        """
        self._allow(_WHOLE_SCAN)
        self.rows(sql)
        self._allow(_PROMPTLY)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises pymysql.Error as it comes."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def first_row(self, sql: str) -> dict[str, Any]:
        """The first row of a query by its columns' names; empty without rows. Raises pymysql.Error
        as it comes.
        """
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            row = cursor.fetchone()
        return dict(zip(names, row, strict=True)) if row else {}

    def status(self) -> dict[str, str]:
        """Return SHOW GLOBAL STATUS by name."""
        return {str(name): str(value) for name, value in self.rows("SHOW GLOBAL STATUS")}

    def questions(self) -> int:
        """Return how many statements the server has had from clients, dballoc's own included."""
        return int(self.rows("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1])

    def variables(self) -> dict[str, str]:
        """Return SHOW GLOBAL VARIABLES by name."""
        return {str(name): str(value) for name, value in self.rows("SHOW GLOBAL VARIABLES")}

    def empty_binary_log(self) -> None:
        """Begin a new file of the server's binary log, and remove all before it. Raises
        pymysql.Error as it comes.
        """
        self.rows("FLUSH BINARY LOGS")
        current = self.rows("SHOW BINARY LOGS")[-1][0]
        self.rows(f"PURGE BINARY LOGS TO '{current}'")

    def close(self) -> None:
        """Close the connection without an error, because the server may be gone."""
        try:
            self._connection.close()
        except pymysql.Error:
            pass


def _connected(path: Path, listener: int | None) -> sockets.socket:
    talk = sockets.socket(sockets.AF_UNIX)
    try:
        talk.settimeout(_TO_CONNECT)
        talk.connect(os.fspath(path))
        talk.settimeout(None)  # PyMySQL sets its own for each answer
        # The user of the listener when it began to listen (unix(7), SO_PEERCRED).
        uid: int = struct.unpack(
            "iII", talk.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, 12)
        )[1]
    except OSError as error:
        talk.close()
        raise pymysql.err.OperationalError(
            CR.CR_CONN_HOST_ERROR, f"{path}: {error.strerror or error}"
        ) from None
    if listener not in (None, uid):
        talk.close()
        raise pymysql.err.OperationalError(
            CR.CR_UNKNOWN_ERROR, f"a process of user {uid} listens on its socket"
        )
    return talk
