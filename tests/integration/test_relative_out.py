"""A results directory given relative to the current one: servers and clients run in directories of
their own.
"""

from collections.abc import Callable
from pathlib import Path

from harness import Cli


def test_relative_out(run_cli: Cli, home: Path, tiny_experiment: Callable[..., Path]) -> None:
    done = run_cli("bench", tiny_experiment(), "--out", "relative-out")
    assert done.status == 0, done.text
    assert "FAULT" not in done.stdout
    assert list((home / "relative-out/trials").glob("*/intervals-*.jsonl"))
