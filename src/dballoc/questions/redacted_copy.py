"""Write the results of a campaign once more without names, so that they can be sent to others: a
results directory that dballoc reads like any other.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dballoc.questions.compare.campaign_tables import read_results
from dballoc.questions.redact import Redaction, find_private_names, redact_campaign
from dballoc.store.open_database import FILE
from dballoc.store.results import Results, write_database
from dballoc.store.rows import TABLES, CampaignRow, StoredColumn

DIRECTORY = "redacted"

# Columns that hold JSON.
_JSON = {
    ("variant", "libraries"),
    ("variant", "environment"),
    ("variant", "command"),
    ("host", "environment"),
    ("trial", "proof"),
    ("candidate", "parameters"),
}


def write_redacted_copy(directory: Path, out: Path) -> Path | None:
    """Write ``OUT/redacted/results.sqlite`` of a campaign's results, and return its path; None for
    those of fit, tune and import, which are not all in their database. Raises UsageError if
    ``directory`` has no results, Failure if the copy cannot be written.
    """
    campaign = read_results(directory)
    if campaign.facts.kind in ("fit", "tune") or campaign.imported:
        return None
    redaction = find_private_names([campaign])
    facts = redact_campaign(campaign, redaction).facts
    results = Results.open(directory, read_only=True)
    try:
        tables = {
            name: _redact_rows(name, table.list_stored(), results.table(name), redaction)
            for name, table in TABLES.items()
            if table is not CampaignRow
        }
    finally:
        results.close()
    write_database(out / DIRECTORY, facts, tables)
    return out / DIRECTORY / FILE


def _redact_rows(
    table: str,
    columns: Sequence[StoredColumn],
    rows: Sequence[Sequence[Any]],
    redaction: Redaction,
) -> list[list[Any]]:
    """Return the rows with all texts redacted, except those of which the schema lists all."""

    def redact(column: StoredColumn, value: Any) -> Any:
        if not isinstance(value, str) or column.choices:
            return value
        if (table, column.name) in _JSON:
            return json.dumps(redaction.redact_values(json.loads(value)))
        return redaction.redact_text(value)

    return [
        [redact(column, value) for column, value in zip(columns, row, strict=True)] for row in rows
    ]
