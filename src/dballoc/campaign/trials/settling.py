"""Let a private server do what it owes after writes: statistics, dirty pages, memtables. What that
takes of each engine is data (catalogue/settling.toml).
"""

from collections.abc import Sequence
from typing import Any, Protocol

import pymysql

from dballoc import catalogue

# ER_UNKNOWN_SYSTEM_VARIABLE, of MySQL and MariaDB alike.
_UNKNOWN_VARIABLE = 1193


class Connection(Protocol):
    """What settling needs of :class:`dballoc.servers.private.admin_connection.Admin`."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query that is answered at once."""

    def scan(self, sql: str) -> None:
        """Run a statement that may take hours."""


class SettlingFailed(Exception):
    """The server refused a statement, or died: the pymysql.Error is the cause."""

    def __init__(self, statement: str) -> None:
        super().__init__(statement)
        self.statement = statement


def begin_settling(
    connection: Connection, engine: str, tables: Sequence[str]
) -> list[tuple[str, str]]:
    """Make the server settle: analyze the ``tables``, set the engine's variables, switch on what is
    to be done once. Returns the variables with their values of before, in the order in which
    :func:`end_settling` is to set them back. SettlingFailed for an error of the server's.
    """
    entry = catalogue.settling().get(engine, {})
    before: list[tuple[str, str]] = []
    for name, value in entry.get("set", []):
        if (old := _read_variable(connection, name)) is not None:
            _run(connection, f"SET GLOBAL {name} = {value}")
            before.insert(0, (name, old))
    for table in tables if "table" in entry else ():
        _run(connection, entry["table"].format(table=table))
    for name in entry.get("switch", []):
        if _read_variable(connection, name) is not None:
            _run(connection, f"SET GLOBAL {name} = 1")
    return before


def end_settling(connection: Connection, before: Sequence[tuple[str, str]]) -> None:
    """Set back what :func:`begin_settling` set. SettlingFailed for an error of the server's."""
    for name, value in before:
        _run(connection, f"SET GLOBAL {name} = {value}")


def _run(connection: Connection, statement: str) -> None:
    try:
        connection.scan(statement)
    except pymysql.Error as error:
        raise SettlingFailed(statement) from error


def _read_variable(connection: Connection, name: str) -> str | None:
    """Return the value of a global variable; None if the server has no such variable."""
    statement = f"SELECT @@GLOBAL.{name}"
    try:
        [(value,)] = connection.rows(statement)
    except pymysql.Error as error:
        if error.args and error.args[0] == _UNKNOWN_VARIABLE:
            return None
        raise SettlingFailed(statement) from error
    return str(value)
