"""Levels in which no transaction ended: figures per operation are left out, and the report is
written.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dballoc.document import chart_files
from dballoc.questions.campaign.figures.level_curves import average_levels
from dballoc.questions.compare.campaign_tables import load_campaign
from dballoc.questions.write_report import write_report_outputs

NOTHING_ENDED = (
    "window_events = 0, tps = 0, qps = 0, p50 = NULL, p95 = NULL, p99 = NULL, p999 = NULL"
)
OF_ONE_TRIAL = f"UPDATE step SET {NOTHING_ENDED} WHERE threads = 4 AND trial IN (SELECT MIN(trial) FROM trial WHERE variant = 'jemalloc')"
OF_A_LEVEL = f"UPDATE step SET {NOTHING_ENDED} WHERE threads = 4"
OF_ALL = f"UPDATE step SET {NOTHING_ENDED} WHERE kind = 'level'"
SLICES = "UPDATE slice SET events = 0"


@pytest.mark.parametrize(
    "sql",
    [(OF_ONE_TRIAL,), (OF_A_LEVEL,), (OF_ALL,), (OF_ALL, SLICES)],
    ids=lambda sql: str(len(sql)),
)
def test_a_report_without_them(
    make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, sql: tuple[str, ...]
) -> None:
    monkeypatch.setattr(chart_files, "write_chart", lambda *_: None)
    directory = make("idle", blocks=2, design="both", sql=sql)
    loaded = load_campaign(directory)
    for table in (loaded.levels, average_levels(loaded)):
        for row in table.to_dicts():
            json.dumps(row, allow_nan=False)  # no infinity
    assert "<html" in write_report_outputs(directory).read_text(encoding="utf-8")
