"""A campaign on a real terminal: the live display draws, and the answer stands at the end."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness import Cli


def test_live_display(
    run_cli: Cli, fresh_directory: Callable[[], Path], tiny_experiment: Callable[..., Path]
) -> None:
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "dballoc",
        "bench",
        tiny_experiment(),
        "--out",
        fresh_directory() / "r",
    ]
    env = {**run_cli.env, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    with subprocess.Popen(
        command, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        text = _read_all(ours, deadline=time.monotonic() + 120)
    os.close(ours)
    assert process.returncode == 0, text
    for word in (
        "block",
        "variant",
        "step",
        "tps",
        "p95",
        "RSS",
        "time left",
        "level oltp_read_only",
        "jemalloc",
    ):
        assert word in text, word
    assert "Traceback" not in text
    assert "Report: " in text


def _read_all(terminal: int, deadline: float) -> str:
    """Until the other end closes, which a terminal tells by EIO."""
    found = b""
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                found += os.read(terminal, 65536)
            except OSError:
                return found.decode(errors="replace")
    raise AssertionError(f"no end: {found[-500:]!r}")
