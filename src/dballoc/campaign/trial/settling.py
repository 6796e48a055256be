"""Let a private server finish the work left by writes: statistics, dirty pages, memtables.
catalogue/settling.toml has the variables of each engine.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pymysql

from dballoc import catalogue

# ER_UNKNOWN_SYSTEM_VARIABLE and ER_WRONG_VALUE_FOR_VAR, of MySQL and MariaDB alike.
_UNKNOWN_VARIABLE, _REFUSED_VALUE = 1193, 1231
# Seconds for which switching a variable on is tried, and between two tries.
_PATIENCE, _BETWEEN_TRIES = 60.0, 1.0


class SettlingConnection(Protocol):
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


@dataclass(frozen=True, kw_only=True)
class Settling:
    """A server that settles. ``before``: the previous values of variables, in the order in which
    :func:`end_settling` sets them back. ``otherwise``: for each variable that the server does not
    have, the substitute that was switched on, or "".
    """

    before: Sequence[tuple[str, str]] = ()
    otherwise: Mapping[str, str]


def begin_settling(connection: SettlingConnection, engine: str, tables: Sequence[str]) -> Settling:
    """Make the server settle: set the engine's variables, analyze the ``tables``, start the work
    that is done once. Raises SettlingFailed for an error of the server's, also for a switch that it
    has refused for a minute.
    """
    entry = catalogue.settling().get(engine, {})
    before: list[tuple[str, str]] = []
    otherwise: dict[str, str] = {}
    for name, value in entry.get("set", []):
        if (old := _read_variable(connection, name)) is None:
            otherwise[name] = ""
            continue
        _run(connection, f"SET GLOBAL {name} = {value}")
        before.insert(0, (name, old))
    for table in tables if "table" in entry else ():
        _run(connection, entry["table"].format(table=table))
    for switch in entry.get("switch", []):
        first, *substitutes = [switch] if isinstance(switch, str) else switch
        names = (first, *substitutes)
        switched = next((n for n in names if _read_variable(connection, n) is not None), "")
        if switched:
            _switch_on(connection, switched)
        if switched != first:
            otherwise[first] = switched
    return Settling(before=tuple(before), otherwise=otherwise)


def end_settling(connection: SettlingConnection, settling: Settling) -> None:
    """Set back what :func:`begin_settling` set. Raises SettlingFailed for an error of the
    server's.
    """
    for name, value in settling.before:
        _run(connection, f"SET GLOBAL {name} = {value}")


def _switch_on(connection: SettlingConnection, name: str) -> None:
    """Switch a variable on. One that starts a compaction may be refused while RocksDB compacts by
    itself: then it is tried again.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return _run(connection, f"SET GLOBAL {name} = 1")
        except SettlingFailed as failure:
            is_refused = _has_number(failure.__cause__, _REFUSED_VALUE)
            if not is_refused or time.monotonic() >= end:
                raise
        time.sleep(_BETWEEN_TRIES)


def _run(connection: SettlingConnection, statement: str) -> None:
    try:
        connection.scan(statement)
    except pymysql.Error as error:
        raise SettlingFailed(statement) from error


def _read_variable(connection: SettlingConnection, name: str) -> str | None:
    """Return the value of a global variable; None if the server has no such variable."""
    statement = f"SELECT @@GLOBAL.{name}"
    try:
        [(value,)] = connection.rows(statement)
    except pymysql.Error as error:
        if _has_number(error, _UNKNOWN_VARIABLE):
            return None
        raise SettlingFailed(statement) from error
    return str(value)


def _has_number(error: BaseException | None, number: int) -> bool:
    return error is not None and error.args[:1] == (number,)
