"""The portable file measures: its own Python has all that this needs, on a host that has none."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Cli, Experiment, rows

PORTABLE = Path(__file__).parents[2] / "dist/dballoc-portable"
pytestmark = pytest.mark.slow


def test_the_portable_file_measures_and_its_results_are_judged_here(
    run_cli: Cli, tiny_experiment: Experiment, fresh_directory: Callable[[], Path], out: Path
) -> None:
    if not PORTABLE.exists():
        pytest.skip("there is no portable file; run: make portable")
    place = fresh_directory()
    # Root's servers and sysbench, as another user, read files of dballoc's: it is unpacked to stay.
    subprocess.run([PORTABLE, "--unpack-to", place / "dballoc"], check=True)
    (place / "tmp").mkdir(mode=0o755)
    done = subprocess.run(
        [place / "dballoc/bin/dballoc", "bench", tiny_experiment(), "--measure-only", "--out", out],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(place / "tmp"), "DBALLOC_CACHE": str(place / "cache")},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list((place / "tmp").iterdir()) == []
    trials = rows(out, "SELECT variant, role, outcome FROM trial ORDER BY variant, role")
    assert [tuple(trial.values()) for trial in trials] == [
        ("glibc", "A1", "ok"), ("glibc", "A2", "ok"), ("jemalloc", "V", "ok"),
    ]  # fmt: skip
    judged = run_cli("report", out)
    assert judged.status == 0, judged.text
    assert (out / "report.html").exists()
