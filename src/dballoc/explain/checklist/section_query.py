"""Query a server for a section, within bounds: what it answers is not trusted."""

from collections.abc import Callable, Sequence
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from dballoc.explain.checklist.section import Cell, ChecklistSection
from dballoc.servers.running.sql_values import describe_refusal

# How many rows of a long table are shown.
TOP_ROWS = 15

# Error numbers of a lost connection.
LOST = (2006, 2013)
_NO_SUCH_TABLE = 1146

# A server may ignore a LIMIT, and send texts and numbers of any length.
_MOST_ROWS, _LONGEST, _LARGEST = 2_000, 300, 2**64


def query_rows(
    cursor: Cursor, sql: str, columns: int, values: Sequence[str] = ()
) -> list[tuple[Cell, ...]]:
    """Return the rows of a statement for so many ``columns``, ``values`` for its placeholders (%s).
    Raises pymysql.Error if the server refuses it; ValueError if it answers with another number of
    columns, or a number beyond 64 bits.
    """
    if values:
        cursor.execute(sql, tuple(values))
    else:
        cursor.execute(sql)
    rows = [tuple(map(limit_cell, row)) for row in cursor.fetchall()[:_MOST_ROWS]]
    if any(len(row) != columns for row in rows):
        raise ValueError("another number of columns than asked for")
    return rows


def limit_cell(value: Any) -> Cell:
    """Return what a server answers as a cell that fits a table: numbers of 64 bits, texts of one
    line or a few. Raises ValueError for a larger number. Pure.
    """
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        if not -_LARGEST < value < _LARGEST:
            raise ValueError("a number beyond 64 bits")
        return value
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def explain_refusal(error: pymysql.Error) -> str:
    """Return why the server refused a statement. Raises the error if the connection is lost."""
    if error.args[0] in LOST:
        raise error
    return describe_refusal(error)


def quote_values(sql: str, values: Sequence[str]) -> str:
    """Return a statement with its values in it, for people. Pure."""
    parts = iter(sql.split("%s"))
    text = next(parts)
    for part, value in zip(parts, values, strict=True):
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        text += f"'{quoted}'{part}"
    return text


def build_or_explain(
    title: str, source: str, make: Callable[[], ChecklistSection], since: str = ""
) -> ChecklistSection:
    """Return the section, or one that tells why the server refused it. ``since``: which versions
    have its table. OperationalError if the connection is lost.
    """
    try:
        return make()
    except pymysql.Error as error:
        reason = explain_refusal(error)
        if since and error.args[0] == _NO_SUCH_TABLE:
            reason = f"{reason}; {since}"
        return ChecklistSection(title=title, source=source, missing=reason)
