"""Our own connection to a private server."""

from pathlib import Path
from typing import Any

import pymysql

USER = "dballoc"
DATABASE = "sbtest"


class Admin:
    """One connection over the socket, for readiness, warm-up SQL, status and shutdown."""

    def __init__(self, socket: Path, password: str, database: str | None = DATABASE) -> None:
        self._connection = pymysql.connect(
            unix_socket=str(socket), user=USER, password=password, database=database,
            connect_timeout=10, read_timeout=3600, autocommit=True,
        )  # fmt: skip

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query. pymysql.Error as it comes."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def status(self) -> dict[str, str]:
        """SHOW GLOBAL STATUS."""
        return {str(name): str(value) for name, value in self.rows("SHOW GLOBAL STATUS")}

    def variables(self) -> dict[str, str]:
        """SHOW GLOBAL VARIABLES."""
        return {str(name): str(value) for name, value in self.rows("SHOW GLOBAL VARIABLES")}

    def close(self) -> None:
        """Quietly; the server may be gone."""
        try:
            self._connection.close()
        except pymysql.Error:
            pass
