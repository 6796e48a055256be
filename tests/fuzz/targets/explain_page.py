"""A saved look, made into the page of ``--html``."""

import tempfile
from pathlib import Path

from dballoc.explain.output import load_snapshots, page
from dballoc.ground.errors import UsageError
from targets import explain_snapshot

OF = ("dballoc.explain.output.page", "dballoc.explain.output.charts")
PRIVILEGED = False
seeds = explain_snapshot.seeds


def fuzz(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / ("a.json.gz" if data[:2] == b"\x1f\x8b" else "a.json")
        path.write_bytes(data)
        try:
            series = load_snapshots.load_series(path)
        except UsageError:
            return
    page.render_explanation(series).encode()
