"""What a server answers to the statements of ``explain --procedure``, and all that is made of it."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from example_explanations import look

from dballoc.catalogue import bounds
from dballoc.cli.explain_parts import ledger_table
from dballoc.cli.shared.safe_output import Console, clean
from dballoc.evidence.sql.server_memory import ServerMemory
from dballoc.explain.checklist import checklist
from dballoc.explain.checklist.memory_events import EventFilter
from dballoc.explain.ledger.configuration_limits import (
    AvailableMemory,
    compute_bounds,
    judge_bounds,
)
from dballoc.explain.output import saved_snapshots
from dballoc.ground import readers
from dballoc.servers.running import connection

OF = (
    "dballoc.explain.checklist.checklist",
    "dballoc.explain.checklist.memory_events",
    "dballoc.explain.checklist.session_buffers",
    "dballoc.explain.checklist.server_summary",
    "dballoc.explain.checklist.checklist",
)
PRIVILEGED = True


class Cursor:
    """Answers every statement with the same rows."""

    def __init__(self, rows: Sequence[tuple]) -> None:
        self.rows = rows

    def execute(self, sql: str, values: Sequence[str] = ()) -> None:
        """Take it."""

    def fetchall(self) -> Sequence[tuple]:
        return self.rows


def seeds() -> list[bytes]:
    variables = {
        "version": "8.0.33",
        "performance_schema": "ON",
        "innodb_buffer_pool_size": "134217728",
        "sort_buffer_size": "262144",
        "key_buffer_size": "8388608",
        "key_cache_block_size": "1024",
        "query_cache_size": "1048576",
    }
    status = {"uptime": "60", "innodb_buffer_pool_pages_total": "8191", "qcache_inserts": "3"}
    freed = ["root", "localhost", "memory/sql/JOIN_CACHE", 2, 2, 524288, 524288, 0, 0, 1, 0, 0, 9]
    rows: list[list[list[Any]]] = [
        [freed],
        [["memory/sql/TABLE", 3, 900, "1000"]],
        [["sort_buffer_size", "1048576", "app", 7]],
        [[7, "app", "Query", 3, "sending", 5, 6, 7]],
        [],
    ]
    return [
        json.dumps({"rows": part, "variables": variables, "status": status}).encode()
        for part in rows
    ]


def fuzz(data: bytes) -> None:
    try:
        value = readers.document(data)
        rows = [tuple(row) for row in value["rows"]]
        variables = {str(k): str(v) for k, v in dict(value["variables"]).items()}
        status = {str(k): str(v) for k, v in dict(value["status"]).items()}
    except (readers.Unfit, TypeError, ValueError, KeyError):
        return
    labels = ServerMemory(
        version=variables.get("version", ""),
        heap=[],
        tables=[],
        mapped_caches={},
        variables=variables,
        status=status,
    )
    judge_bounds(compute_bounds(variables, bounds()), AvailableMemory(1 << 34, None), 1 << 30)
    try:
        wanted = EventFilter("memory/sql/%", "root")
        sections = [
            *checklist.query_server_sections(Cursor(rows), labels, wanted),  # type: ignore[arg-type]
            *checklist.query_server_sections(Cursor(rows), labels, EventFilter()),  # type: ignore[arg-type]
        ]
    except connection.BROKEN:
        return
    sections.append(checklist.measure_innodb_beyond_pool(look().ledger, labels))
    found = replace(look(), sections=sections)
    ledger_table.print_checklist(Console(file=io.StringIO()), clean(sections))
    json.dumps(saved_snapshots.make_document(found))
