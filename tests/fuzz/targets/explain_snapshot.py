"""What ``dballoc explain --save`` and ``--save-series`` wrote, and all that is made of it: table,
page, OpenMetrics, difference.
"""

import gzip
import io
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from example_explanations import look
from rich.console import Console

from dballoc.cli.explain_parts import ledger_table
from dballoc.cli.explain_parts.explain_request import LedgerView
from dballoc.explain import explanation
from dballoc.explain.checklist.section import Bytes, ChecklistSection
from dballoc.explain.difference import compare_explanations
from dballoc.explain.output import load_snapshots, openmetrics, saved_snapshots
from dballoc.ground.errors import UsageError
from dballoc.process.usage import ProcessUsage

OF = (
    "dballoc.explain.output.load_snapshots",
    "dballoc.explain.checklist.section",
    "dballoc.ground.readers",
)
PRIVILEGED = False


SECTIONS = [
    ChecklistSection(
        title="process", source="/proc", rows=[("VmRSS", Bytes(1 << 30)), ("Threads", 7)]
    ),
    ChecklistSection(
        title="sessions", source="SQL", columns=tuple("abcdefghi"), rows=[tuple(range(9))]
    ),
]
USAGE = ProcessUsage(vsz=1 << 33, reserved=0, cpu_seconds=7.5, running_seconds=60.0)


def seeds() -> list[bytes]:
    found = replace(look(), sections=SECTIONS, usage=USAGE)
    one = json.dumps(saved_snapshots.make_document(found), indent=1).encode()
    series = b"".join(
        json.dumps(saved_snapshots.make_document(look(taken=1e9 + i))).encode() + b"\n"
        for i in range(3)
    )
    return [
        one,
        json.dumps(saved_snapshots.make_document(look())).encode(),
        series,
        gzip.compress(one, mtime=0),
        gzip.compress(series, mtime=0),
    ]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / ("a.json.gz" if data[:2] == b"\x1f\x8b" else "a.json")
        path.write_bytes(data)
        try:
            series = load_snapshots.load_series(path)
        except UsageError as error:
            assert "\n" not in str(error), error
            return
    last = explanation.judge_series(series) if len(series) > 1 else series[-1]
    said = io.StringIO()
    for view in (LedgerView(), LedgerView(all_lines=True, sources=True)):
        ledger_table.print_explanation(Console(file=said), last, view)
    ledger_table.print_difference(Console(file=said), compare_explanations(series[0], last))
    said.write(
        openmetrics.render_openmetrics(last)
        + json.dumps(saved_snapshots.make_document(last))
        + json.dumps(compare_explanations(series[0], last).as_json())
    )
    said.getvalue().encode()
