"""What ``dballoc explain --save`` and ``--save-series`` wrote, and all that is made of it: table,
page, OpenMetrics, difference.
"""

import gzip
import io
import json
import tempfile
from pathlib import Path

from example_explanations import look
from rich.console import Console

from dballoc.cli.explain_parts import ledger_table
from dballoc.errors import UsageError
from dballoc.explain import explanation
from dballoc.explain.difference import compare_explanations
from dballoc.explain.output import openmetrics, saved_snapshots

OF = ("dballoc.explain.output.saved_snapshots", "dballoc.readers")
PRIVILEGED = False


def seeds() -> list[bytes]:
    one = json.dumps(saved_snapshots.make_document(look()), indent=1).encode()
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
            series = saved_snapshots.load_series(path)
        except UsageError as error:
            assert "\n" not in str(error), error
            return
    last = explanation.judge_series(series) if len(series) > 1 else series[-1]
    said = io.StringIO()
    ledger_table.print_explanation(Console(file=said), last)
    ledger_table.print_difference(Console(file=said), compare_explanations(series[0], last))
    said.write(
        openmetrics.render_openmetrics(last)
        + json.dumps(saved_snapshots.make_document(last))
        + json.dumps(compare_explanations(series[0], last).as_json())
    )
    said.getvalue().encode()
