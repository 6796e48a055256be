"""What performance_schema's memory instruments have counted: the five summaries of what is
allocated now, and of each account also what was allocated and is freed again.

Tables and columns: MySQL's manual, "Memory Summary Tables"; MariaDB's documentation, "Performance
Schema memory_summary_by_account_by_event_name Table", which has them from 10.5.2 on.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pymysql
from pymysql.cursors import Cursor

from dballoc.evidence.sql.server_memory import AT_NEXT_START
from dballoc.explain.checklist.section import Bytes, Cell, ChecklistSection
from dballoc.explain.checklist.section_query import (
    TOP_ROWS,
    build_or_explain,
    explain_refusal,
    query_rows,
    quote_values,
)
from dballoc.servers.running.sql_values import parse_count

_COLUMNS = ("blocks", "bytes", "most bytes")
_COUNTED = "CURRENT_COUNT_USED, CURRENT_NUMBER_OF_BYTES_USED, HIGH_NUMBER_OF_BYTES_USED"

# The five summaries: what each is grouped by, its table, the columns that group it, their headings.
_SUMMARIES = (
    ("global", "memory_summary_global_by_event_name", (), ()),
    ("by account", "memory_summary_by_account_by_event_name", ("USER", "HOST"), ("user", "host")),
    ("by host", "memory_summary_by_host_by_event_name", ("HOST",), ("host",)),
    ("by thread", "memory_summary_by_thread_by_event_name", ("THREAD_ID",), ("thread",)),
    ("by user", "memory_summary_by_user_by_event_name", ("USER",), ("user",)),
)
# All that the account summary counts, in its own order.
_ALL_COUNTS = (
    "COUNT_ALLOC",
    "COUNT_FREE",
    "SUM_NUMBER_OF_BYTES_ALLOC",
    "SUM_NUMBER_OF_BYTES_FREE",
    "LOW_COUNT_USED",
    "CURRENT_COUNT_USED",
    "HIGH_COUNT_USED",
    "LOW_NUMBER_OF_BYTES_USED",
    "CURRENT_NUMBER_OF_BYTES_USED",
    "HIGH_NUMBER_OF_BYTES_USED",
)
_ACCOUNTS = (
    f"SELECT USER, HOST, EVENT_NAME, {', '.join(_ALL_COUNTS)}"
    " FROM performance_schema.memory_summary_by_account_by_event_name"
    " WHERE SUM_NUMBER_OF_BYTES_ALLOC > 0"
)
_INSTRUMENTS = (
    "SELECT NAME, ENABLED FROM performance_schema.setup_instruments WHERE NAME LIKE 'memory/%'"
)
# Each of these rows is a list of thirteen lines.
_TOP_FREED = 5
# LIKE's own escape character is a backslash, unless sql_mode has NO_BACKSLASH_ESCAPES.
_ESCAPE = "|"
_SINCE = "MySQL has it from 5.7.2 on, MariaDB from 10.5.2"


@dataclass(frozen=True)
class EventFilter:
    """Which rows of the account summary are wanted: of one ``event`` (% stands for any characters),
    of one ``account`` (USER, or USER@HOST); None for all.
    """

    event: str | None = None
    account: str | None = None

    @property
    def conditions(self) -> tuple[str, list[str]]:
        """SQL to append to a WHERE clause, and the values for its placeholders."""
        sql, values = "", []
        if self.account is not None:
            user, at, host = self.account.rpartition("@")
            sql += " AND USER = %s" + (" AND HOST = %s" if at else "")
            values += [user, host] if at else [host]
        if self.event is not None:
            sql += f" AND EVENT_NAME LIKE %s ESCAPE '{_ESCAPE}'"
            values.append(re.sub(r"[_|]", rf"{_ESCAPE}\g<0>", self.event))
        return sql, values

    def matches(self, name: str) -> bool:
        """Whether an instrument has the wanted name."""
        wanted = ".*".join(map(re.escape, (self.event or "%").split("%")))
        return re.fullmatch(wanted, name, re.IGNORECASE) is not None


def query_event_sections(
    cursor: Cursor, schema_off: str | None, wanted: EventFilter
) -> list[ChecklistSection]:
    """Query the five summaries, and what accounts have allocated and freed. ``schema_off``: why
    performance_schema has no data. OperationalError if the connection is lost.
    """
    return [
        *(_query_summary(cursor, schema_off, *summary) for summary in _SUMMARIES),
        _query_freed(cursor, schema_off, wanted),
    ]


def _query_summary(
    cursor: Cursor,
    schema_off: str | None,
    grouping: str,
    table: str,
    columns: Sequence[str],
    headings: Sequence[str],
) -> ChecklistSection:
    title = f"performance_schema: memory {grouping}"
    chosen = ", ".join((*columns, "EVENT_NAME", _COUNTED))
    sql = (
        f"SELECT {chosen} FROM performance_schema.{table} WHERE CURRENT_NUMBER_OF_BYTES_USED <> 0"
        f" ORDER BY CURRENT_NUMBER_OF_BYTES_USED DESC LIMIT {TOP_ROWS}"
    )
    if schema_off:
        return ChecklistSection(title=title, source=sql, missing=schema_off)

    def query() -> ChecklistSection:
        rows: list[tuple[Cell, ...]] = [
            (*row[:-3], parse_count(row[-3]), *map(_parse_bytes, row[-2:]))
            for row in query_rows(cursor, sql, len(columns) + 4)
        ]
        missing = (
            None
            if rows
            else f"no memory instrument that is on has counted anything; {AT_NEXT_START}"
        )
        return ChecklistSection(
            title=title,
            source=sql,
            columns=(*headings, "event", *_COLUMNS),
            rows=rows,
            missing=missing,
        )

    return build_or_explain(title, sql, query, since=_SINCE)


def _query_freed(cursor: Cursor, schema_off: str | None, wanted: EventFilter) -> ChecklistSection:
    """Query what accounts have allocated and freed again: events without memory in use now, without
    those of the server's own threads, which have no account; or all that the filter names.
    """
    narrowed, values = wanted.conditions
    title = (
        "performance_schema: allocated and freed, by account"
        if narrowed
        else "performance_schema: allocated and freed again, by account"
    )
    condition = narrowed or " AND CURRENT_NUMBER_OF_BYTES_USED = 0 AND USER IS NOT NULL"
    rows_shown = TOP_ROWS if narrowed else _TOP_FREED
    sql = f"{_ACCOUNTS}{condition} ORDER BY HIGH_NUMBER_OF_BYTES_USED DESC LIMIT {rows_shown}"
    source = quote_values(sql, values)
    if schema_off:
        return ChecklistSection(title=title, source=source, missing=schema_off)

    def query() -> ChecklistSection:
        rows = [
            make_account_row(row) for row in query_rows(cursor, sql, 3 + len(_ALL_COUNTS), values)
        ]
        return ChecklistSection(
            title=title,
            source=source,
            columns=("user", "host", "event", *_ALL_COUNTS),
            rows=rows,
            missing=None if rows else _explain_no_rows(cursor, wanted),
        )

    return build_or_explain(title, source, query, since=_SINCE)


def make_account_row(row: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return a row of the account summary with its numbers; those in bytes as such. Raises
    ValueError if one is not a number. Pure.
    """
    counts = dict(zip(_ALL_COUNTS, row[3:], strict=True))
    return (
        *row[:3],
        *(
            _parse_bytes(count) if "BYTES" in name else parse_count(count)
            for name, count in counts.items()
        ),
    )


def _explain_no_rows(cursor: Cursor, wanted: EventFilter) -> str:
    """Return why the account summary has no such rows."""
    try:
        instruments = query_rows(cursor, _INSTRUMENTS, 2)
    except pymysql.Error as error:
        explain_refusal(error)
        instruments = []
    return explain_no_rows({str(name): str(on) == "YES" for name, on in instruments}, wanted)


def explain_no_rows(instruments: Mapping[str, bool], wanted: EventFilter) -> str:
    """Return why the account summary has no such rows. ``instruments``: whether each memory
    instrument is on, empty if that is not known. Pure.
    """
    of_account = f" of account {wanted.account}" if wanted.account is not None else ""
    if wanted.event is not None and instruments:
        matching = [name for name in instruments if wanted.matches(name)]
        if not matching:
            return (
                f"this server has no memory instrument {wanted.event}"
                f"{_suggest_name(wanted.event, instruments)}; setup_instruments lists them"
            )
        off = [name for name in matching if not instruments[name]]
        if len(off) == len(matching):
            return (
                f"{off[0]} is off, so nothing of it is counted; for the next start: "
                f"performance_schema_instrument = '{off[0]}=ON'"
            )
    if instruments and not any(instruments.values()):
        return f"no memory instrument is on; {AT_NEXT_START}"
    if wanted.event is None and wanted.account is None:
        return "nothing that was counted has been freed completely"
    return f"no allocation{of_account} has been counted since the instruments were switched on"


def _suggest_name(event: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(event, list(names), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _parse_bytes(cell: Cell) -> Bytes:
    return Bytes(parse_count(cell))
