"""The buffers that each session has: what a new session gets, and which sessions have set another
value.

Tables: MySQL's manual, "Performance Schema System Variable Tables".
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from dballoc.evidence.sql.server_memory import is_number
from dballoc.explain.checklist.section import Bytes, Cell, ChecklistSection
from dballoc.explain.checklist.section_query import explain_refusal, query_rows
from dballoc.servers.running.sql_values import parse_count

_TITLE = "buffers of a session"
_GLOBAL = "SHOW GLOBAL VARIABLES"
_COLUMNS = ("variable", "a new session", "sessions with another value", "their value", "user")
_MOST_DIFFERENT = 200
_MARIADB = (
    "MariaDB does not show the variables of other sessions (MySQL does, in "
    "performance_schema.variables_by_thread): one that has set its own value is not seen here"
)


def query_session_buffers(
    cursor: Cursor,
    variables: Mapping[str, str],
    catalogue: Mapping[str, Any],
    mariadb: bool,
    schema_off: str | None,
) -> ChecklistSection:
    """Query which sessions have other buffers than a new one. ``schema_off``: why
    performance_schema has no data. OperationalError if the connection is lost.
    """
    names = [name for name in catalogue["session"]["names"] if is_number(variables.get(name, ""))]
    if mariadb or schema_off or not names:
        return describe_session_buffers(variables, names, None, _MARIADB if mariadb else schema_off)
    sql = _make_statement(names)
    try:
        different = query_rows(cursor, sql, 4)
    except pymysql.Error as error:
        note = f"other sessions' values are not known: {explain_refusal(error)}"
        return describe_session_buffers(variables, names, None, note)
    return describe_session_buffers(variables, names, different, None, sql)


def _make_statement(names: Sequence[str]) -> str:
    """Return the SELECT of (variable, value, user, sessions) where a session differs."""
    quoted = ", ".join(f"'{name}'" for name in names)
    return (
        "SELECT VARIABLE_NAME, s.VARIABLE_VALUE, PROCESSLIST_USER, COUNT(*)"
        " FROM performance_schema.variables_by_thread s"
        " JOIN performance_schema.global_variables g USING (VARIABLE_NAME)"
        " JOIN performance_schema.threads USING (THREAD_ID)"
        f" WHERE VARIABLE_NAME IN ({quoted}) AND s.VARIABLE_VALUE <> g.VARIABLE_VALUE"
        f" GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT {_MOST_DIFFERENT}"
    )


def describe_session_buffers(
    variables: Mapping[str, str],
    names: Sequence[str],
    different: Sequence[tuple[Cell, ...]] | None,
    note: str | None,
    statement: str = "",
) -> ChecklistSection:
    """Return the section. ``names``: of the variables, all numbers; ``different``: (variable,
    value, user, sessions), None where the server does not tell. Raises ValueError if a number in it
    is malformed. Pure.
    """
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        new = _as_size(variables[name])
        others = [row for row in different or () if str(row[0]).lower() == name]
        rows += [
            (name, new, parse_count(count), _as_size(value), user)
            for _, value, user, count in others
        ] or [(name, new, None if different is None else 0, None, None)]
    return ChecklistSection(
        title=_TITLE,
        source=f"{_GLOBAL}; {statement}" if statement else _GLOBAL,
        columns=_COLUMNS,
        rows=rows,
        missing=None if rows else "this server has none of these variables",
        note=note,
    )


def _as_size(value: Cell) -> Cell:
    """Return a variable's value in bytes; a text stays what it is."""
    return Bytes(parse_count(value)) if is_number(str(value)) else value
