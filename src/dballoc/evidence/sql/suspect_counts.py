"""Count what may have memory that no owner claims: tables in memory, triggers, stored programs, …
Asked only where there is such memory; each statement has a time limit, and one that is refused or
takes too long is left out.
"""

import math

import pymysql
from pymysql.cursors import Cursor

from dballoc.servers.running.sql_values import fetch_rows, parse_count

_OWN_SCHEMAS = "('information_schema', 'performance_schema', 'sys', 'mysql')"
# What is counted: the names of a statement's columns, and the statement without SELECT.
_BOTH = (
    (
        ("memory_tables", "memory_tables_bytes"),
        "COUNT(*), SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.TABLES"
        f" WHERE ENGINE = 'MEMORY' AND TABLE_SCHEMA NOT IN {_OWN_SCHEMAS}",
    ),
    (
        ("triggers", "triggers_text"),
        "COUNT(*), SUM(LENGTH(ACTION_STATEMENT)) FROM information_schema.TRIGGERS"
        f" WHERE TRIGGER_SCHEMA NOT IN {_OWN_SCHEMAS}",
    ),
    (
        ("routines", "routines_text"),
        "COUNT(*), SUM(LENGTH(ROUTINE_DEFINITION)) FROM information_schema.ROUTINES"
        f" WHERE ROUTINE_SCHEMA NOT IN {_OWN_SCHEMAS}",
    ),
    (
        ("transactions", "lock_bytes"),
        "COUNT(*), SUM(TRX_LOCK_MEMORY_BYTES) FROM information_schema.INNODB_TRX",
    ),
    (
        ("replication_workers",),
        "COUNT(*) FROM information_schema.PROCESSLIST"
        " WHERE COMMAND = 'Slave_worker' OR STATE LIKE '%event from Coordinator%'",
    ),
)
_TEXT_INDEXES = (
    "COUNT(*) FROM information_schema.{table} WHERE NAME LIKE '%/FTS\\_%\\_BEING\\_DELETED'"
)
_MARIADB = ((("text_indexes",), _TEXT_INDEXES.format(table="INNODB_SYS_TABLES")),)
_MYSQL = (
    (("text_indexes",), _TEXT_INDEXES.format(table="INNODB_TABLES")),
    # It does not tell its key caches: what could be in them.
    (
        ("myisam_tables", "index_bytes"),
        "COUNT(*), SUM(INDEX_LENGTH) FROM information_schema.TABLES"
        f" WHERE ENGINE = 'MyISAM' AND TABLE_SCHEMA NOT IN {_OWN_SCHEMAS}",
    ),
)


def query_counts(cursor: Cursor, mariadb: bool, seconds: float) -> dict[str, int]:
    """Query every count that the server answers within ``seconds`` each, by name."""
    limit = (
        f"SET STATEMENT max_statement_time = {seconds} FOR SELECT"
        if mariadb
        else f"SELECT /*+ MAX_EXECUTION_TIME({math.ceil(seconds * 1000)}) */"
    )
    counts: dict[str, int] = {}
    if not mariadb:
        # MySQL would answer with sizes of tables that may be a day old.
        _query(cursor, "SET SESSION information_schema_stats_expiry = 0")
    for names, statement in (*_BOTH, *(_MARIADB if mariadb else _MYSQL)):
        for row in _query(cursor, f"{limit} {statement}"):
            counts |= {name: parse_count(value) for name, value in zip(names, row, strict=False)}
    return counts


def _query(cursor: Cursor, statement: str) -> list[tuple]:
    """Return a statement's rows; none where the server refuses it, or stops it."""
    try:
        return fetch_rows(cursor, statement)
    except pymysql.Error:
        return []
