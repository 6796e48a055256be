"""What ``dballoc explain --save`` and ``--save-series`` wrote, and all that is made of it: table, page, OpenMetrics, difference."""

import gzip
import io
import json
import tempfile
from pathlib import Path

from looks import look
from rich.console import Console

from dballoc.cli import explain_table
from dballoc.errors import UsageError
from dballoc.explain import explanation, openmetrics, snapshot
from dballoc.explain.difference import difference

OF = ("dballoc.explain.snapshot", "dballoc.readers")
PRIVILEGED = False


def seeds() -> list[bytes]:
    one = json.dumps(snapshot.document(look()), indent=1).encode()
    series = b"".join(json.dumps(snapshot.document(look(taken=1e9 + i))).encode() + b"\n" for i in range(3))
    return [
        one,
        json.dumps(snapshot.document(look())).encode(),
        series,
        gzip.compress(one, mtime=0),
        gzip.compress(series, mtime=0),
    ]


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / ("a.json.gz" if data[:2] == b"\x1f\x8b" else "a.json")
        path.write_bytes(data)
        try:
            series = snapshot.load(path)
        except UsageError as error:
            assert "\n" not in str(error), error
            return
    last = explanation.judged(series) if len(series) > 1 else series[-1]
    said = io.StringIO()
    explain_table.print_all(Console(file=said), last)
    explain_table.print_difference(Console(file=said), difference(series[0], last))
    said.write(openmetrics.text(last) + json.dumps(snapshot.document(last)) + json.dumps(difference(series[0], last).as_json()))
    said.getvalue().encode()
